// SPDX-License-Identifier: Apache-2.0

#include "rules/judge.h"

#include <ATen/ops/isfinite.h>
#include <fmt/format.h>

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

std::string why_not_these_calls(const Model& model, const Match& match) {
  std::string kept;
  bool first = true;
  auto look = [&](NodeId id) -> std::string {
    const Node& node = model.graph()[id];
    const std::string around = kept_modules_around(model, node);
    if (!first && around != kept)
      return fmt::format("it crosses the border of {}, which is called as such",
                         around.empty() ? kept : around);
    kept = around;
    first = false;
    if (node.op == Opcode::call_module) {
      const ModuleId module = model.modules().find(node.target);
      if (const std::string& custom = model.modules()[module].custom; !custom.empty())
        return fmt::format("module '{}' {}", node.target, custom);
    }
    const book::Effect effect = book::effect_of(model, node);
    if (effect.writes_all) return fmt::format("'{}' writes into a tensor", node.name);
    if (!effect.writes_first) return "";
    // Harmless where what it writes was made here, and nobody else sees it.
    const NodeId* written = node.args.empty() ? nullptr : node.args[0].get<NodeId>();
    const bool own = written && contains(match.inner, *written) &&
                     !book::effect_of(model, model.graph()[*written]).views &&
                     model.graph().num_users(*written) == 1;
    return own ? "" : fmt::format("'{}' works in place", node.name);
  };
  for (NodeId id : match.outputs)
    if (std::string why = look(id); !why.empty()) return why;
  for (NodeId id : match.inner)
    if (std::string why = look(id); !why.empty()) return why;
  return "";
}

NodeId first_of(const Model& model, const Match& match) {
  NodeId first = match.outputs[0];
  for (const auto* nodes : {&match.outputs, &match.inner})
    for (NodeId id : *nodes)
      if (model.graph().precedes(id, first)) first = id;
  return first;
}

// What is read later than before, and returned as another tensor, must not be written meanwhile.
std::string why_written(const Model& model, const Match& match, LazyWrites& writes) {
  const NodeId first = first_of(model, match), last = model.graph().last();
  for (std::size_t i = 0; i < match.variables.size(); ++i) {
    const NodeId* id = match.variables[i].value.get<NodeId>();
    if (id && writes.between(*id, first, last))
      return fmt::format("'{}' may be written in place", model.graph()[*id].name);
  }
  for (NodeId id : match.beside)
    if (writes.between(id, id, last))
      return fmt::format("'{}' may be written in place", model.graph()[id].name);
  // Copies are what they are copies of as long as nobody writes into either.
  for (NodeId id : match.copies)
    for (NodeId at = id, source = behind_no_ops(model, id); at; at = no_op_input(model, at))
      if (writes.between(at, source, last))
        return fmt::format("'{}' may be written in place", model.graph()[at].name);
  return "";
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
std::string why_result_written(const Definition& rule, const Model& model, const Match& match,
                               const Draft& made, LazyWrites& writes) {
  for (std::size_t i = 0; i < match.outputs.size(); ++i) {
    const NodeId id = match.outputs[i];
    if (!writes.between(id, id, model.graph().last())) continue;
    const bool own = match.outputs.size() == 1 && made.calls[i] && makes_new_tensor(model, id) &&
                     makes_new_tensor_after(rule.after.model, made.calls[i]);
    if (!own) return fmt::format("its result '{}' may be written in place", model.graph()[id].name);
  }
  return "";
}

std::string why_not_these_weights(const Definition& rule, const Model& model, const Match& match) {
  const std::vector<Param> weights = weights_of_once(rule, match);
  if (rule.once && weights.empty()) return "what is computed once needs a weight";
  for (const Param& weight : weights) {
    if (std::string why = why_shared(model, weight); !why.empty()) return why;
    if (std::string why = why_no_numbers(model, weight); !why.empty()) return why;
    const Name& name = model.state()[weight.state].name;
    if (const std::string_view owner = weight.node ? std::string_view() : called_owner(model, name);
        !owner.empty() && model.graph().num_callers(owner) > 1)
      return fmt::format("module '{}' is used in more than one place", owner);
    const at::TensorBase& first = model.state().tensor(weights[0].state);
    const at::TensorBase& tensor = model.state().tensor(weight.state);
    if (tensor.scalar_type() != first.scalar_type()) return "its weights have different dtypes";
    if (tensor.device() != first.device()) return "its weights are on different devices";
  }
  return "";
}

bool is_finite(const at::Tensor& tensor) {
  return !at::isFloatingType(tensor.scalar_type()) || at::isfinite(tensor).all().item<bool>();
}

// What is computed from numbers has to be numbers.
std::string why_not_finite(const Definition& rule, const Model& model, const Match& match) {
  if (!rule.once || only_moves(rule)) return "";
  for (const at::Tensor& result : compute_once(rule, model, match)) {
    if (is_finite(result.detach())) continue;
    for (const Param& weight : weights_of_once(rule, match))
      if (!is_finite(tensor_of(model, weight).detach()))
        return fmt::format("'{}' is not finite", model.state()[weight.state].name);
    return "what is computed once is not finite";
  }
  return "";
}

std::string why_not_here(const Definition& rule, const Model& model, const Match& match) {
  for (const Condition& condition : rule.conditions) {
    const Literal literal = holds(rule, condition, model, match);
    if (!literal.problem.empty()) return fmt::format("{}: {}", condition.text, literal.problem);
    if (!truth_of(literal.value)) return fmt::format("{} does not hold", condition.text);
  }
  return "";
}

bool same_sizes(const TensorType& a, const TensorType& b) {
  return std::equal(a.sizes.begin(), a.sizes.end(), b.sizes.begin(), b.sizes.end(),
                    [](const Dim& x, const Dim& y) {
                      return x.expr == y.expr && (!x.known() || x.value == y.value);
                    });
}

std::string why_another_type(const Model& model, const Match& match, const Draft& made) {
  for (std::size_t i = 0; i < match.outputs.size(); ++i) {
    const TypePtr& old = model.graph()[match.outputs[i]].type;
    if (!old) continue;
    const TypePtr& type = made.types[i];
    if (!type) return "its result's type cannot be told";
    if (type->dtype != old->dtype)
      return fmt::format("its result would be {} instead of {}", c10::toString(type->dtype),
                         c10::toString(old->dtype));
    if (type->device != old->device) return "its result would be on another device";
    if (!same_sizes(*type, *old)) return "its result would have other sizes";
  }
  return "";
}

// Where no type is recorded, what decides it must stay: a dtype, a list of sizes.
std::string why_type_is_open(const Definition& rule, const Model& model, const Match& match) {
  const Graph& after = rule.after.model.graph();
  for (NodeId id : match.outputs) {
    if (model.graph()[id].type) continue;
    for (std::size_t i = 0; i < rule.variables.size(); ++i) {
      const Variable& variable = rule.variables[i];
      const bool decides = variable.kind == Kind::dtype || variable.kind == Kind::any;
      const bool given = !variable.otherwise || !(match.variables[i].value == *variable.otherwise);
      if (decides && given && after.num_users(rule.after.named.at(variable.name)) == 0)
        return fmt::format("the type of '{}' is not recorded (run shape propagation)",
                           model.graph()[id].name);
    }
  }
  return "";
}

// The results are made where the first of them stands.
std::string why_not_in_order(const Model& model, const Match& match) {
  if (match.outputs.size() == 1) return "";
  const Graph& graph = model.graph();
  NodeId first = match.outputs[0];
  for (NodeId id : match.outputs)
    if (graph.precedes(id, first)) first = id;
  for (const Binding& binding : match.variables) {
    bool late = false;
    for_each_node(binding.value, [&](NodeId id) { late |= !graph.precedes(id, first); });
    if (late) return fmt::format("'{}' comes before all that it would need", graph[first].name);
  }
  return "";
}

// A result that becomes another value of the graph is another tensor for the one who gets it.
std::string why_not_handed_on(const Model& model, const Match& match, const Draft& made) {
  for (std::size_t i = 0; i < match.outputs.size(); ++i) {
    if (made.calls[i]) continue;
    for (NodeId user : model.graph().users(match.outputs[i]))
      if (model.graph()[user].op == Opcode::output)
        return fmt::format("'{}' is returned by the model", model.graph()[match.outputs[i]].name);
  }
  return "";
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
      dead.problem =
          returned ? fmt::format("'{}' is returned by the model", graph[*it].name)
                   : fmt::format("'{}' is also used by '{}'", graph[*it].name, graph[*other].name);
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

std::string why_not(const Definition& rule, const Model& model, const Match& match,
                    LazyWrites& writes) try {
  if (Dead dead = dead_nodes(model, match); !dead.problem.empty()) return dead.problem;
  for (auto* ask : {&why_not_these_calls, &why_not_in_order})
    if (std::string why = (*ask)(model, match); !why.empty()) return why;
  for (auto* ask : {&why_not_here, &why_type_is_open, &why_not_these_weights})
    if (std::string why = (*ask)(rule, model, match); !why.empty()) return why;
  if (std::string why = why_written(model, match, writes); !why.empty()) return why;
  const Draft made = draft(rule, model, match);
  if (!made.problem.empty()) return made.problem;
  if (std::string why = why_result_written(rule, model, match, made, writes); !why.empty())
    return why;
  if (std::string why = why_not_handed_on(model, match, made); !why.empty()) return why;
  if (std::string why = why_another_type(model, match, made); !why.empty()) return why;
  return why_not_finite(rule, model, match);
} catch (const Error& error) {
  return error.what();
} catch (const c10::Error& error) {
  return fmt::format("it cannot be computed: {}", first_line(error.what_without_backtrace()));
}

}  // namespace refx::rules
