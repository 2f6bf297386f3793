// SPDX-License-Identifier: Apache-2.0

#include "rules/legality.h"

#include <ATen/ops/isfinite.h>

#include <algorithm>

#include "book/call.h"
#include "ops/names.h"
#include "ops/no_op.h"
#include "ops/param.h"
#include "refx/error.h"
#include "rules/literal.h"
#include "rules/once.h"
#include "rules/rewrite.h"
#include "rules/substitute.h"
#include "util/first_line.h"

namespace refx::rules {

namespace {

bool contains(const std::vector<NodeId>& nodes, NodeId id) {
  return std::find(nodes.begin(), nodes.end(), id) != nodes.end();
}

// Nobody uses it, and it does nothing: a part of a value, or an assertion of what the graph records
// of one.
bool is_idle(const Model& model, NodeId id) {
  const std::string_view name = book::name_of_call(model, model.graph()[id]);
  return model.graph().num_users(id) == 0 &&
         (name == "_assert_tensor_metadata" || name == "getitem");
}

std::optional<Reason> why_not_these_calls(const Model& model, const Match& match) {
  std::string kept;
  bool first = true;
  auto look = [&](NodeId id) -> std::optional<Reason> {
    const Node& node = model.graph()[id];
    const std::string around = kept_modules_around(model, node);
    if (!first && around != kept)
      return because<ReasonId::match_spans_kept_call>(around.empty() ? kept : around);
    kept = around;
    first = false;
    if (node.op == Opcode::call_module) {
      const ModuleId module = model.modules().find(node.target);
      if (const std::string& custom = model.modules()[module].custom; !custom.empty())
        return because<ReasonId::module_is_custom>(node.target, custom);
    }
    const book::Effect effect = book::effect_of(model, node);
    if (effect.writes_all) return because<ReasonId::writes_a_tensor>(node.name).about({id});
    if (!effect.writes_first) return std::nullopt;
    // Harmless where what it writes was made here, and nobody else sees it.
    const NodeId* written = node.args.empty() ? nullptr : node.args[0].get<NodeId>();
    const bool own = written && contains(match.inner, *written) &&
                     !book::effect_of(model, model.graph()[*written]).views &&
                     model.graph().num_users(*written) == 1;
    if (own) return std::nullopt;
    return because<ReasonId::works_in_place>(node.name).about({id});
  };
  for (NodeId id : match.outputs)
    if (auto why = look(id)) return why;
  for (NodeId id : match.inner)
    if (auto why = look(id)) return why;
  return std::nullopt;
}

NodeId first_of(const Model& model, const Match& match) {
  NodeId first = match.outputs[0];
  for (const auto* nodes : {&match.outputs, &match.inner})
    for (NodeId id : *nodes)
      if (model.graph().precedes(id, first)) first = id;
  return first;
}

// What is read later than before, and returned as another tensor, must not be written meanwhile.
std::optional<Reason> why_written(const Model& model, const Match& match, LazyWrites& writes) {
  const NodeId first = first_of(model, match), last = model.graph().last();
  for (std::size_t i = 0; i < match.variables.size(); ++i) {
    const NodeId* id = match.variables[i].value.get<NodeId>();
    if (id && writes.between(*id, first, last))
      return because<ReasonId::value_written>(model.graph()[*id].name).about({*id});
  }
  for (NodeId id : match.beside)
    if (writes.between(id, id, last))
      return because<ReasonId::value_written>(model.graph()[id].name).about({id});
  // Copies are what they are copies of as long as nobody writes into either.
  for (NodeId id : match.copies)
    for (NodeId at = id, source = behind_no_ops(model, id); at; at = no_op_input(model, at))
      if (writes.between(at, source, last))
        return because<ReasonId::value_written>(model.graph()[at].name).about({at});
  return std::nullopt;
}

bool makes_new_tensor(const Model& model, NodeId id) {
  const book::Effect effect = book::effect_of(model, model.graph()[id]);
  return !effect.views && !effect.writes_first && !effect.writes_all;
}

// The same of a call of `after`, also where it may give a view of a tensor that another call made.
// A sum or a product may be left out, and be one of its operands.
bool makes_new_tensor_after(const Model& after, NodeId id) {
  if (makes_new_tensor(after, id)) return true;
  const Args& args = after.graph()[id].args;
  const NodeId* of = args.empty() ? nullptr : args[0].get<NodeId>();
  if (!of || after.graph()[*of].op != Opcode::call_function) return false;
  const std::string_view name = book::name_of_call(after, after.graph()[*of]);
  return name != "add" && name != "mul" && makes_new_tensor_after(after, *of);
}

// Whoever writes into a tensor that was made for the result writes into the one that is made now.
std::optional<Reason> why_result_written(const Definition& rule, const Model& model,
                                         const Match& match, const Draft& made,
                                         LazyWrites& writes) {
  for (std::size_t i = 0; i < match.outputs.size(); ++i) {
    const NodeId id = match.outputs[i];
    if (!writes.between(id, id, model.graph().last())) continue;
    const bool own = match.outputs.size() == 1 && made.calls[i] && makes_new_tensor(model, id) &&
                     makes_new_tensor_after(rule.after.model, made.calls[i]);
    if (!own) return because<ReasonId::result_written>(model.graph()[id].name).about({id});
  }
  return std::nullopt;
}

std::optional<Reason> why_not_these_weights(const Definition& rule, const Model& model,
                                            const Match& match) {
  const std::vector<Param> weights = weights_of_once(rule, match);
  if (rule.once && weights.empty()) return because<ReasonId::once_without_weight>();
  for (const Param& weight : weights) {
    if (auto why = why_shared(model, weight)) return why;
    if (auto why = why_not_readable(model, weight)) return why;
    const Name& name = model.state()[weight.state].name;
    if (const std::string_view owner = weight.node ? std::string_view() : called_owner(model, name);
        !owner.empty() && model.graph().num_callers(owner) > 1)
      return because<ReasonId::module_used_elsewhere>(owner);
    const at::TensorBase& first = model.state().tensor(weights[0].state);
    const at::TensorBase& tensor = model.state().tensor(weight.state);
    if (tensor.scalar_type() != first.scalar_type())
      return because<ReasonId::weight_dtypes_differ>();
    if (tensor.device() != first.device()) return because<ReasonId::weight_devices_differ>();
  }
  return std::nullopt;
}

bool is_finite(const at::Tensor& tensor) {
  return !at::isFloatingType(tensor.scalar_type()) || at::isfinite(tensor).all().item<bool>();
}

// What is computed from numbers has to be numbers.
std::optional<Reason> why_not_finite(const Definition& rule, const Model& model,
                                     const Match& match) {
  if (!rule.once || only_moves(rule)) return std::nullopt;
  for (const at::Tensor& result : compute_once(rule, model, match)) {
    if (is_finite(result.detach())) continue;
    for (const Param& weight : weights_of_once(rule, match))
      if (!is_finite(tensor_of(model, weight).detach()))
        return because<ReasonId::tensor_not_finite>(model.state()[weight.state].name);
    return because<ReasonId::once_not_finite>();
  }
  return std::nullopt;
}

std::optional<Reason> why_not_here(const Definition& rule, const Model& model, const Match& match) {
  for (const Condition& condition : rule.conditions) {
    const Literal literal = holds(rule, condition, model, match);
    if (!literal.problem.empty())
      return because<ReasonId::condition_unknown>(condition.text, literal.problem);
    if (!truth_of(literal.value)) return because<ReasonId::condition_not_met>(condition.text);
  }
  return std::nullopt;
}

std::optional<Reason> why_another_type(const Model& model, const Match& match, const Draft& made) {
  for (std::size_t i = 0; i < match.outputs.size(); ++i) {
    const TypePtr& old = model.graph()[match.outputs[i]].type;
    if (!old) continue;
    const TypePtr& type = made.types[i];
    if (!type) return because<ReasonId::result_type_unknown>();
    if (type->dtype != old->dtype)
      return because<ReasonId::result_dtype_changes>(c10::toString(type->dtype),
                                                     c10::toString(old->dtype));
    if (type->device != old->device) return because<ReasonId::result_device_changes>();
    if (!same_sizes(*type, *old)) return because<ReasonId::result_sizes_change>();
  }
  return std::nullopt;
}

// Where no type is recorded, what decides it must stay: a dtype, a list of sizes.
std::optional<Reason> why_type_is_open(const Definition& rule, const Model& model,
                                       const Match& match) {
  const Graph& after = rule.after.model.graph();
  for (NodeId id : match.outputs) {
    if (model.graph()[id].type) continue;
    for (std::size_t i = 0; i < rule.variables.size(); ++i) {
      const Variable& variable = rule.variables[i];
      const bool decides =
          variable.kind == VariableKind::dtype || variable.kind == VariableKind::any;
      const bool given =
          !variable.default_value || !(match.variables[i].value == *variable.default_value);
      if (decides && given && after.num_users(rule.after.named.at(variable.name)) == 0)
        return because<ReasonId::type_not_recorded>(model.graph()[id].name).about({id});
    }
  }
  return std::nullopt;
}

// The results are made where the first of them stands.
std::optional<Reason> why_not_in_order(const Model& model, const Match& match) {
  if (match.outputs.size() == 1) return std::nullopt;
  const Graph& graph = model.graph();
  NodeId first = match.outputs[0];
  for (NodeId id : match.outputs)
    if (graph.precedes(id, first)) first = id;
  for (const Binding& binding : match.variables) {
    bool late = false;
    for_each_node(binding.value, [&](NodeId id) { late |= !graph.precedes(id, first); });
    if (late) return because<ReasonId::runs_too_early>(graph[first].name).about({first});
  }
  return std::nullopt;
}

// A result that becomes another value of the graph is another tensor for the one who gets it.
std::optional<Reason> why_not_handed_on(const Model& model, const Match& match, const Draft& made) {
  for (std::size_t i = 0; i < match.outputs.size(); ++i) {
    if (made.calls[i]) continue;
    for (NodeId user : model.graph().users(match.outputs[i]))
      if (model.graph()[user].op == Opcode::output)
        return because<ReasonId::returned_by_model>(model.graph()[match.outputs[i]].name)
            .about({match.outputs[i]});
  }
  return std::nullopt;
}

}  // namespace

Dead dead_nodes(const Model& model, const Match& match) {
  const Graph& graph = model.graph();
  Dead dead;
  std::vector<NodeId> idle;
  for (auto it = match.inner.rbegin(); it != match.inner.rend(); ++it) {
    const auto users = graph.users(*it);
    const auto other = std::find_if(users.begin(), users.end(), [&](NodeId user) {
      return !contains(dead.nodes, user) && !contains(match.outputs, user) && !is_idle(model, user);
    });
    if (other == users.end()) {
      for (NodeId user : users)
        if (is_idle(model, user) && !contains(idle, user)) idle.push_back(user);
      dead.nodes.push_back(*it);
    } else if (!no_op_input(model, *it)) {
      const bool returned = graph[*other].op == Opcode::output;
      dead.problem = returned ? because<ReasonId::returned_by_model>(graph[*it].name).about({*it})
                              : because<ReasonId::also_used_by>(graph[*it].name, graph[*other].name)
                                    .about({*it, *other});
      return dead;
    }
  }
  dead.nodes.insert(dead.nodes.begin(), idle.begin(), idle.end());
  return dead;
}

bool is_exported(const Model& model, const Match& match) {
  auto is_op = [&](NodeId id) {
    const Node& node = model.graph()[id];
    return node.op == Opcode::call_function && book::look_up(node).parts.is_op();
  };
  return std::any_of(match.outputs.begin(), match.outputs.end(), is_op) ||
         std::any_of(match.inner.begin(), match.inner.end(), is_op);
}

std::optional<Reason> why_not(const Definition& rule, const Model& model, const Match& match,
                              LazyWrites& writes) try {
  if (Dead dead = dead_nodes(model, match); dead.problem) return dead.problem;
  for (auto* ask : {&why_not_these_calls, &why_not_in_order})
    if (auto why = (*ask)(model, match)) return why;
  for (auto* ask : {&why_not_here, &why_type_is_open, &why_not_these_weights})
    if (auto why = (*ask)(rule, model, match)) return why;
  if (auto why = why_written(model, match, writes)) return why;
  const Draft made = draft(rule, model, match);
  if (made.problem) return made.problem;
  if (auto why = why_result_written(rule, model, match, made, writes)) return why;
  if (auto why = why_not_handed_on(model, match, made)) return why;
  if (auto why = why_another_type(model, match, made)) return why;
  return why_not_finite(rule, model, match);
} catch (const Error& error) {
  return because<ReasonId::rule_fails>(error.what());
} catch (const c10::Error& error) {
  return because<ReasonId::not_computable>(first_line(error.what_without_backtrace()));
}

}  // namespace refx::rules
