#include "exec/policy.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "book/policy.h"
#include "book/target.h"
#include "refx/executor.h"
#include "refx/hint.h"
#include "refx/source.h"

namespace refx {

namespace exec {
namespace {

constexpr std::string_view kLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

bool is_word(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kLetters) == text.npos;
}

void check_name(const std::string& name) {
  const auto dot = name.find('.');
  if (is_word(name.substr(0, dot)) && (dot == name.npos || is_word(name.substr(dot + 1)))) return;
  throw Error("'" + name +
              "' cannot be allowed: it is neither a namespace, as mylib, nor an operator, as "
              "mylib.add");
}

struct Called {
  std::string space, name;
  std::string text() const { return space + "." + name; }
};

// The operator that a node calls, as the compiler reads it; none for Python's own functions and
// what is no function.
std::optional<Called> called_by(const Node& node) {
  using Kind = book::Target::Kind;
  if (node.op == Opcode::call_method) return Called{"aten", node.target};
  if (node.op != Opcode::call_function) return std::nullopt;
  const book::Target target = book::parse_target(node.target);
  if (target.is_op() || target.kind == Kind::packet)
    return Called{std::string(target.space), std::string(target.name)};
  if (target.kind == Kind::torch || target.kind == Kind::functional)
    return Called{"aten", book::operator_of(target)};
  return std::nullopt;
}

}  // namespace

Policy::Policy(const Model& model, const std::vector<std::string>& more)
    : allowed_(more), from_file_(model.source() != nullptr) {
  if (model.source())
    allowed_.insert(allowed_.end(), model.source()->allowed_ops().begin(),
                    model.source()->allowed_ops().end());
  for (const std::string& name : allowed_) check_name(name);
}

std::string Policy::why_not(std::string_view space, std::string_view name) const {
  const auto allowed = [&](std::string_view what) {
    return std::find(allowed_.begin(), allowed_.end(), what) != allowed_.end();
  };
  const std::string full = std::string(space) + "." + std::string(name);
  if (book::is_common(space)) {
    const std::string_view reason = book::why_refused(name);
    return reason.empty() || allowed(full) ? std::string() : std::string(reason);
  }
  if (!from_file_ || allowed(space) || allowed(full)) return {};
  return "it is of the namespace '" + std::string(space) + "', and those of aten and prims run";
}

void Policy::require(std::string_view space, std::string_view name) {
  std::string full = std::string(space) + "." + std::string(name);
  if (passed_.count(full)) return;
  if (const std::string reason = why_not(space, name); !reason.empty())
    throw HintedError("operator " + full + " is refused: " + reason, Hint::allow_ops);
  passed_.insert(std::move(full));
}

void require_allowed(const Model& model) {
  Policy policy(model);
  for (NodeId id : model.graph()) {
    const Node& node = model.graph()[id];
    try {
      if (const auto called = called_by(node)) policy.require(called->space, called->name);
    } catch (const HintedError& e) {
      throw HintedError("node '" + node.name + "': " + e.problem(), e.hint());
    }
  }
}

}  // namespace exec

namespace {

// The operators that the text of a subgraph names.
std::vector<std::string> named_in(std::string_view json) {
  constexpr std::string_view kOps = "\"torch.ops.";
  std::vector<std::string> all;
  for (auto at = json.find(kOps); at != json.npos; at = json.find(kOps, at + 1)) {
    const std::string_view rest = json.substr(at + 1);
    all.push_back(book::target_from_file(rest.substr(0, rest.find('"'))));
  }
  return all;
}

void visit_subgraphs(const Arg& arg, const std::function<void(const Node&)>& f) {
  if (const auto* raw = arg.get<Raw>())
    for (const std::string& target : named_in(raw->text))
      f({.op = Opcode::call_function, .target = target});
  if (const auto* list = arg.get<List>())
    for (const Arg& item : list->items) visit_subgraphs(item, f);
}

}  // namespace

std::vector<RefusedOp> refused_ops(const Model& model) {
  const exec::Policy policy(model);
  std::map<std::string, std::string> reasons;  // by operator; none for one that runs
  const auto visit = [&](const Node& node) {
    const auto called = exec::called_by(node);
    if (!called) return;
    const auto [it, is_new] = reasons.try_emplace(called->text());
    if (is_new) it->second = policy.why_not(called->space, called->name);
  };
  for (NodeId id : model.graph()) {
    const Node& node = model.graph()[id];
    visit(node);
    for (const Arg& arg : node.args) visit_subgraphs(arg, visit);
    for (const auto& [name, arg] : node.kwargs) visit_subgraphs(arg, visit);
  }
  std::vector<RefusedOp> all;
  for (auto& [op, reason] : reasons)
    if (!reason.empty()) all.push_back({op, std::move(reason)});
  return all;
}

}  // namespace refx
