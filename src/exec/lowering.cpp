#include "exec/lowering.h"

#include <charconv>

#include "refx/error.h"

namespace refx::exec {
namespace {

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

template <class F>
void for_each_part(std::string_view text, char separator, F&& f) {
  while (!text.empty()) {
    auto end = std::min(text.find(separator), text.size());
    if (auto part = trim(text.substr(0, end)); !part.empty()) f(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::optional<Operand> literal(std::string_view text) {
  if (text == "None") return Operand();
  if (text == "True") return Operand(true);
  if (text == "False") return Operand(false);
  if (text.front() == '\'') return Operand(std::string(text.substr(1, text.size() - 2)).c_str());
  std::int64_t integer = 0;
  const char* end = text.data() + text.size();
  if (std::from_chars(text.data(), end, integer).ptr == end) return Operand(integer);
  double real = 0;
  if (std::from_chars(text.data(), end, real).ptr == end) return Operand(real);
  return std::nullopt;
}

bool is_true(const Operand* o) { return o && o->kind == Kind::boolean && o->constant.toBool(); }

Operand layer_tensor(Compiler& out, std::string_view path, std::string_view name) {
  bool optional = name.back() == '?';
  if (optional) name.remove_suffix(1);
  std::string full = std::string(path) + "." + std::string(name);
  return optional && !out.has_state(full) ? Operand() : out.state(full);
}

Operand as_list(const Operand& o) {
  bool is_list = o.kind == Kind::sequence || o.kind == Kind::unknown;
  return is_list ? o : Operand::nest(Operand::Form::list, {o});
}

Operand call_argument(Compiler& out, std::string_view text, const NamedOperands& names,
                      std::string_view path) {
  if (text.front() == '.') return layer_tensor(out, path, text.substr(1));
  if (text.front() == '[') {
    return as_list(call_argument(out, text.substr(1, text.size() - 2), names, path));
  }
  if (const Operand* named = find_named(names, text)) return *named;
  auto value = literal(text);
  REFX_CHECK(value, "lowering: '" + std::string(text) + "' is neither a name nor a literal");
  return *value;
}

std::string in_place(std::string target) { return target.insert(target.rfind('.'), "_"); }

}  // namespace

const Operand* find_named(const NamedOperands& names, std::string_view name) {
  for (const auto& [n, value] : names) {
    if (n == name) return &value;
  }
  return nullptr;
}

NamedOperands bind_signature(std::string_view signature, const std::vector<Operand>& args,
                             const NamedOperands& kwargs) {
  NamedOperands bound;
  std::size_t next = 0, used = 0;
  for_each_part(signature, ' ', [&](std::string_view part) {
    std::string_view name = part.substr(0, part.find('='));
    if (next < args.size()) {
      bound.emplace_back(name, args[next++]);
    } else if (const Operand* given = find_named(kwargs, name)) {
      bound.emplace_back(name, *given);
      ++used;
    } else if (name.size() < part.size()) {
      bound.emplace_back(name, *literal(part.substr(name.size() + 1)));
    } else {
      throw Error("argument '" + std::string(name) + "' is missing");
    }
  });
  if (next < args.size())
    throw Error("too many arguments; it takes (" + std::string(signature) + ")");
  if (used < kwargs.size()) {
    for (const auto& [name, value] : kwargs) {
      if (!find_named(bound, name)) throw Error("no argument '" + name + "'");
    }
    throw Error("an argument is given twice; it takes (" + std::string(signature) + ")");
  }
  return bound;
}

Operand lower(Compiler& out, std::string_view call, const NamedOperands& names,
              std::string_view path) {
  auto open = call.find('(');
  std::string target(call.substr(0, open));
  if (is_true(find_named(names, "inplace"))) target = in_place(target);
  std::vector<Operand> args;
  for_each_part(call.substr(open + 1, call.size() - open - 2), ',', [&](std::string_view text) {
    args.push_back(call_argument(out, text, names, path));
  });
  return out.call(target, std::move(args));
}

}  // namespace refx::exec
