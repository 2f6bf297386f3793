// SPDX-License-Identifier: Apache-2.0

#include "rules/substitute.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "book/target.h"
#include "ir/map_arg.h"
#include "ops/param.h"

namespace refx::rules {

namespace {

constexpr std::uint32_t kOwn = 1U << 31;  // and the number of the variable

// Of a sum or a product, the operand that is there, where the other stands for nothing.
const Arg* only_operand(std::string_view name, const Arg* a, const Arg* b) {
  if (!a || !b || (name != "add" && name != "mul")) return nullptr;
  return a->is<None>() ? b : b->is<None>() ? a : nullptr;
}

bool has_node(const Arg& arg) {
  bool any = false;
  for_each_node(arg, [&](NodeId) { any = true; });
  return any;
}

}  // namespace

bool asks(const Node& node) { return node.target.starts_with("rule."); }

Arg substituted(const Arg& arg, const Values& values) {
  return map_inputs(arg, [&](NodeId id) { return values[id.value]; });
}

Values values_of(const Definition& rule, const Body& body, const Match& match) {
  Values values(body.model.graph().id_limit());
  for (std::size_t i = 0; i < rule.variables.size(); ++i)
    if (const auto it = body.named.find(rule.variables[i].name); it != body.named.end()) {
      const Binding& binding = match.variables[i];
      const bool own = binding.state && !binding.value.is<NodeId>();
      values[it->second.value] = own ? NodeId(kOwn + static_cast<std::uint32_t>(i)) : binding.value;
    }
  return values;
}

std::string substitute(const Body& body, Values& values, const TypeOfValue& type_of,
                       const MakeCall& make) {
  for (NodeId id : body.model.graph()) {
    const Node& node = body.model.graph()[id];
    if (node.op != Opcode::call_function) continue;
    const bool asks = rules::asks(node);
    if (asks || is_operator(node.target)) {
      Args args;
      for (const Arg& arg : node.args) args.push_back(substituted(arg, values));
      const std::string_view op = book::value_name(node.target);
      if (const Arg* only = args.size() == 2 ? only_operand(op, &args[0], &args[1]) : nullptr) {
        values[id.value] = *only;
        continue;
      }
      if (asks || std::none_of(args.begin(), args.end(), has_node)) {
        const Literal literal = compute(node.target, args, type_of);
        if (!literal.problem.empty()) return fmt::format("{} {}", op, literal.problem);
        values[id.value] = literal.value;
        continue;
      }
    }
    Reading call = read_form(body, id);
    for (Reading::Given& given : call.args) {
      given.value = substituted(given.value, values);
      // A variable that stands for nothing.
      if (given.value.is<None>()) given.by_default = true;
    }
    const Reading::Given *self = call.find("self"), *other = call.find("other");
    const Arg* only =
        self && other ? only_operand(call.name, &self->value, &other->value) : nullptr;
    // A call of an operator on an absent value is absent, too.
    if (!only && self && self->value.is<None>()) only = &self->value;
    values[id.value] = only ? *only : make(id, call);
  }
  return "";
}

TypePtr known_type(const Model& model, const Match& match, NodeId id) {
  if (id.value >= kOwn)
    return type_of(model.state().tensor(match.variables[id.value - kOwn].state));
  const Node& node = model.graph()[id];
  if (node.type) return node.type;
  const Arg arg(id);
  const auto param = param_of(model, &arg);
  return param ? type_of(model.state().tensor(param->state)) : nullptr;
}

Literal holds(const Definition& rule, const Condition& condition, const Model& model,
              const Match& match) {
  Values values = values_of(rule, rule.where, match);
  const Body& form = rule.before[match.form];
  const Values of_form = values_of(rule, form, match);
  for (const auto& [name, id] : rule.where.named) {
    if (find_variable(rule, name)) continue;
    const auto it = form.named.find(name);
    if (it == form.named.end()) continue;
    const NodeId of = match.of[it->second.value];
    values[id.value] = of ? Arg(of) : of_form[it->second.value];  // another name of a variable
  }
  std::map<NodeId, std::string> problems;
  // Of all conditions, this one.
  std::vector<NodeId> needed;
  for_each_node(condition.value, [&](NodeId id) { needed.push_back(id); });
  for (std::size_t i = 0; i < needed.size(); ++i)
    for_each_input(rule.where.model.graph()[needed[i]], [&](NodeId id) { needed.push_back(id); });
  for (NodeId id : rule.where.model.graph()) {
    const Node& node = rule.where.model.graph()[id];
    if (node.op != Opcode::call_function ||
        std::find(needed.begin(), needed.end(), id) == needed.end())
      continue;
    Args args;
    std::string problem;
    std::optional<Arg> decided;  // by an operand alone, whatever the other is
    for (const Arg& arg : node.args) {
      args.push_back(substituted(arg, values));
      const NodeId* input = arg.get<NodeId>();
      const auto it = input ? problems.find(*input) : problems.end();
      if (it != problems.end())
        problem = it->second;
      else if (const bool truth = truth_of(args.back());
               node.target == (truth ? "operator.or_" : "operator.and_"))
        decided = truth;
    }
    // As in Python, `or` does not ask for its other side if one is true, nor `and` if one is false.
    if (decided) problem.clear();
    Literal literal = decided ? Literal{*decided}
                      : problem.empty()
                          ? compute(node.target, args,
                                    [&](NodeId value) { return known_type(model, match, value); })
                          : no_literal(problem);
    if (!literal.problem.empty()) problems[id] = literal.problem;
    values[id.value] = literal.value;
  }
  if (const NodeId* id = condition.value.get<NodeId>(); id && problems.contains(*id))
    return no_literal(problems[*id]);
  return {substituted(condition.value, values)};
}

}  // namespace refx::rules
