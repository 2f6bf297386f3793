// SPDX-License-Identifier: Apache-2.0

#include "exec/policy.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "book/allowed_ops.h"
#include "book/target.h"
#include "refx/executor.h"
#include "refx/hint.h"
#include "refx/source.h"

namespace refx {

namespace exec {
namespace {

constexpr std::string_view kAten = "aten";
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
  std::optional<std::string> overload;
  std::string text() const { return space + "." + name; }
};

// The operator that a node calls, as the compiler reads it; none for Python's own functions and
// what is no function.
std::optional<Called> called_by(const Node& node) {
  using TargetKind = book::Target::Kind;
  if (node.op == Opcode::call_method) return Called{"aten", node.target, {}};
  if (node.op != Opcode::call_function) return std::nullopt;
  const book::Target target = book::parse_target(node.target);
  if (target.is_op() || target.kind == TargetKind::packet)
    return Called{std::string(target.space), std::string(target.name), target.overload_name()};
  if (target.kind == TargetKind::torch || target.kind == TargetKind::functional)
    return Called{"aten", book::operator_of(target), {}};
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

bool Policy::is_by_name(std::string_view space, std::string_view name) const {
  const auto allowed = [&](std::string_view what) {
    return std::find(allowed_.begin(), allowed_.end(), what) != allowed_.end();
  };
  return (space != kAten && allowed(space)) ||
         allowed(std::string(space) + "." + std::string(name));
}

bool Policy::is_by_table(std::string_view space, std::string_view name) const {
  return from_file_ && space == kAten && !is_by_name(space, name);
}

std::string Policy::why_not(std::string_view space, std::string_view name,
                            Overload overload) const {
  if (is_by_name(space, name)) return {};
  if (space != kAten) {
    if (!from_file_ || book::is_built_in(space, name)) return {};
    return "it is of the namespace '" + std::string(space) + "', and only those of aten run";
  }
  if (book::is_allowed(name, overload)) return {};
  if (book::is_allowed(name, std::nullopt))
    return from_file_ ? "its overload '" + std::string(overload->empty() ? "default" : *overload) +
                            "' is not known to check its arguments"
                      : std::string();
  if (const std::string_view reason = book::why_refused(name); !reason.empty())
    return std::string(reason);
  return from_file_ ? "it is not known to check its arguments" : std::string();
}

void Policy::require(std::string_view space, std::string_view name, Overload overload) {
  std::string full = std::string(space) + "." + std::string(name);
  std::string key = full + "." + std::string(overload.value_or("*"));
  if (passed_.count(key)) return;
  if (const std::string reason = why_not(space, name, overload); !reason.empty())
    throw HintedError("operator " + full + " is refused: " + reason, Hint::allow_ops);
  passed_.insert(std::move(key));
}

void require_allowed(const Model& model) {
  Policy policy(model);
  for (NodeId id : model.graph()) {
    const Node& node = model.graph()[id];
    try {
      if (const auto called = called_by(node))
        policy.require(called->space, called->name, called->overload);
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
    std::string& reason = reasons[called->text()];
    if (reason.empty()) reason = policy.why_not(called->space, called->name, called->overload);
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
