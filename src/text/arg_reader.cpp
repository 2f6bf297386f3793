// SPDX-License-Identifier: Apache-2.0

#include "text/arg_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "book/enum_names.h"
#include "refx/error.h"
#include "text/read_type.h"
#include "text/spelling.h"
#include "util/did_you_mean.h"

namespace refx {

namespace {

// A node that the text defines, before or after the place that was read so far.
struct Definition {
  std::string name;
  std::size_t line;
};

// For error messages only: every line of the form "%name :" or "%name =".
std::vector<Definition> definitions(std::string_view text) {
  std::vector<Definition> found;
  for (std::size_t start = 0, line = 1; start < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    Cursor cursor(text.substr(start, end - start));
    start = end + 1;
    try {
      if (!cursor.accept('%')) continue;
      std::string name = cursor.name("a name");
      if (cursor.peek(':') || cursor.peek('=')) found.push_back({std::move(name), line});
    } catch (const Error&) {  // a broken line has its own error when its turn comes
    }
  }
  return found;
}

void require_unique(const Cursor& cursor, std::size_t at, const Kwargs& kwargs) {
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : kwargs) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice != keys.end()) cursor.fail(at, fmt::format("{} is given twice", shown(*twice)));
}

}  // namespace

// ---- containers --------------------------------------------------------------------------------

Arg ArgReader::arg() {
  const std::size_t at = cursor_.position();
  if (cursor_.accept('%')) return node(at, cursor_.name("the name of a node"));
  if (cursor_.peek_quote()) return cursor_.string();
  if (cursor_.peek('[')) return List{items('[', ']')};
  if (cursor_.peek('(')) return Tuple{tuple()};
  if (cursor_.peek('{')) return dict();
  if (cursor_.peek('.')) return ellipsis();
  if (cursor_.peek_number())
    return std::visit([](auto number) { return Arg(number); }, cursor_.number());
  if (cursor_.peek_word()) return word();
  cursor_.fail_expected("a value");
}

Arg ArgReader::result() {
  bare_nodes_ = true;
  Arg result = arg();
  bare_nodes_ = false;
  return result;
}

Args ArgReader::items(char open, char close) {
  Args items;
  cursor_.sequence(open, close, [&] { items.push_back(arg()); });
  return items;
}

Args ArgReader::tuple() {
  Args items;
  const std::size_t at = cursor_.position();
  const bool comma = cursor_.sequence('(', ')', [&] { items.push_back(arg()); });
  if (items.size() == 1 && !comma) cursor_.fail(at, "a tuple of one item needs a comma: (x,)");
  return items;
}

Arg ArgReader::dict() {
  Dict dict;
  cursor_.sequence('{', '}', [&] {
    Arg key = arg();
    cursor_.expect(':');
    Arg value = arg();
    dict.items.emplace_back(std::move(key), std::move(value));
  });
  return dict;
}

Kwargs ArgReader::kwargs(char open, char separator, char close) {
  Kwargs kwargs;
  const std::size_t at = cursor_.position();
  cursor_.sequence(open, close, [&] {
    std::string key = cursor_.name("the name of an argument");
    cursor_.expect(separator);
    kwargs.emplace_back(std::move(key), arg());
  });
  require_unique(cursor_, at, kwargs);
  return kwargs;
}

// ---- words -------------------------------------------------------------------------------------

Arg ArgReader::word() {
  const std::size_t at = cursor_.position();
  const std::string_view word = cursor_.word();
  if (word == "None") return None{};
  if (word == "True") return true;
  if (word == "False") return false;
  if (word == "inf") return std::numeric_limits<double>::infinity();
  if (word == "nan") return nan();
  if (word == "sym") return sym();
  if (word == "raw") return raw();
  if (word == "slice") return Slice{items('(', ')')};
  if (word == "device") return device();
  if (word == "complex") return complex();
  if (word.starts_with("torch.")) return torch_constant(at, word.substr(6));
  if (bare_nodes_) return node(at, std::string(word));
  const bool node = static_cast<bool>(graph_.find(word));
  cursor_.fail(at, fmt::format("{} is not a value{}", shown(word),
                               node ? fmt::format("; did you mean '%{}'?", word) : ""));
}

Arg ArgReader::ellipsis() {
  const std::size_t at = cursor_.position();
  const std::string_view dots = cursor_.word();
  if (dots != "...") cursor_.fail(at, fmt::format("expected '...', found {}", shown(dots)));
  return Ellipsis{};
}

Arg ArgReader::torch_constant(std::size_t at, std::string_view name) {
  if (const auto dtype = find_dtype(name)) return *dtype;
  if (const auto layout = find_layout(name)) return *layout;
  if (const auto format = find_memory_format(name)) return *format;
  cursor_.fail(at, fmt::format("torch has no dtype, layout or memory format {}{}", shown(name),
                               did_you_mean(name, torch_constant_names())));
}

// device(type='cuda', index=0)
Arg ArgReader::device() {
  c10::Device device(c10::kCPU);
  cursor_.between('(', ')', [&] {
    cursor_.expect("type");
    cursor_.expect('=');
    const std::size_t at = cursor_.position();
    device = c10::Device(device_type(cursor_, at, cursor_.string()));
    if (!cursor_.accept(',')) return;
    cursor_.expect("index");
    cursor_.expect('=');
    device = read_device_index(cursor_, device.type());
  });
  return device;
}

Arg ArgReader::complex() {
  double real_part = 0, imaginary_part = 0;
  cursor_.between('(', ')', [&] {
    real_part = real();
    cursor_.expect(',');
    imaginary_part = real();
  });
  return std::complex<double>(real_part, imaginary_part);
}

double ArgReader::real() {
  if (cursor_.accept("inf")) return std::numeric_limits<double>::infinity();
  if (cursor_.accept("nan")) return nan();
  return std::visit([](auto number) { return static_cast<double>(number); }, cursor_.number());
}

// After the word: its bits, if they are not the usual ones: nan(0xfff8000000000000).
double ArgReader::nan() {
  double value = std::numeric_limits<double>::quiet_NaN();
  if (!cursor_.peek('(')) return value;
  cursor_.between('(', ')', [&] {
    const std::size_t at = cursor_.position();
    std::string_view hex = cursor_.word();
    std::uint64_t bits = 0;
    if (hex.starts_with("0x")) hex.remove_prefix(2);
    const auto end = std::from_chars(hex.data(), hex.data() + hex.size(), bits, 16).ptr;
    value = std::bit_cast<double>(bits);
    if (hex.empty() || end != hex.data() + hex.size() || !std::isnan(value))
      cursor_.fail(at, "expected the bits of a nan, such as 0x7ff8000000000001");
  });
  return value;
}

Arg ArgReader::sym() {
  SymInt sym;
  cursor_.between('(', ')', [&] {
    if (cursor_.peek_quote()) {
      sym.expr = cursor_.string();
      return;
    }
    const std::size_t at = cursor_.position();
    sym.expr = cursor_.bare_expr();
    if (!is_plain_expr(sym.expr)) cursor_.fail(at, "expected an expression such as 2*s0");
  });
  return sym;
}

Arg ArgReader::raw() {
  Raw raw;
  cursor_.between('(', ')', [&] { raw.text = cursor_.string(); });
  return raw;
}

// ---- nodes -------------------------------------------------------------------------------------

Arg ArgReader::node(std::size_t at, const std::string& name) const {
  const NodeId id = graph_.find(name);
  if (!id) no_such_node(at, name);
  return id;
}

void ArgReader::no_such_node(std::size_t at, const std::string& name) const {
  std::vector<std::string> names;
  for (Definition& definition : definitions(cursor_.text())) {
    if (definition.name == name)
      cursor_.fail(at, fmt::format("node {} is used before its definition in line {}", shown(name),
                                   definition.line));
    names.push_back(std::move(definition.name));
  }
  cursor_.fail(at, fmt::format("there is no node {}{}", shown(name), did_you_mean(name, names)));
}

}  // namespace refx
