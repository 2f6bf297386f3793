// SPDX-License-Identifier: Apache-2.0

#include "rules/once.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "exec/on_meta.h"
#include "refx/builder.h"
#include "refx/error.h"
#include "refx/executor.h"
#include "rules/literal.h"
#include "rules/spell.h"
#include "rules/substitute.h"

namespace refx::rules {

namespace {

// In which `once` computes with a weight.
c10::ScalarType dtype_of_weight(const Definition& rule, const at::TensorBase& stored) {
  // Moving elements needs no wider type, and a wide copy would cost memory.
  return only_moves(rule) ? stored.scalar_type() : at::kDouble;
}

TensorType with_dtype(TensorType type, c10::ScalarType dtype) {
  type.dtype = dtype;
  return type;
}

// The values of a weight, or, where only types are asked for, none.
at::Tensor values_of_weight(const Definition& rule, const Model& model, StateId state,
                            bool types_only) {
  const at::TensorBase& stored = model.state().tensor(state);
  const auto dtype = dtype_of_weight(rule, stored);
  if (types_only) return exec::meta_tensor(with_dtype(*type_of(stored), dtype)).toTensor();
  return tensor_of(model, {state, {}}).detach().to(dtype);
}

std::vector<at::Tensor> run_once(const Definition& rule, const Model& model, const Match& match,
                                 bool types_only) {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  const Body& body = *rule.once;
  Builder builder;
  Values values = values_of(rule, body, match);
  std::map<NodeId, TypePtr> types;
  for (std::size_t i = 0; i < rule.variables.size(); ++i) {
    const Variable& variable = rule.variables[i];
    const Binding& binding = match.variables[i];
    const auto it = body.named.find(variable.name);
    if (it == body.named.end() || !binding.state) continue;
    const NodeId weight =
        builder.constant(variable.name, values_of_weight(rule, model, binding.state, types_only));
    types.emplace(weight, type_of(model.state().tensor(binding.state)));
    values[it->second.value] = weight;
  }
  auto type_of_weight = [&](NodeId id) {
    const auto it = types.find(id);
    return it == types.end() ? nullptr : it->second;
  };
  const std::string problem =
      substitute(body, values, type_of_weight, [&](NodeId form, const Reading& call) -> Arg {
        Node node = spell_as_op(call);
        if (node.target.empty()) {
          const Node& as_written = body.model.graph()[form];
          throw Error(fmt::format("'{}' does not take these arguments", as_written.target));
        }
        return builder.call(std::move(node.target), std::move(node.args), std::move(node.kwargs));
      });
  if (!problem.empty()) throw Error(problem);
  Tuple all;
  for (const Arg& result : body.results) all.items.push_back(substituted(result, values));
  Executor executor(builder.build(std::move(all)));
  executor.use_plans(false);  // it runs once, and types have no bits to plan with
  const c10::IValue outcome = executor.run({});
  std::vector<at::Tensor> results;
  for (const c10::IValue& value : outcome.toTupleRef().elements()) {
    if (!value.isTensor()) throw Error("'once' computes something that is not a tensor");
    results.push_back(value.toTensor());
  }
  return results;
}

}  // namespace

bool only_moves(const Definition& rule) {
  static constexpr std::string_view kMoves[] = {"transpose", "permute", "reshape",
                                                "cat",       "slice",   "narrow",
                                                "unsqueeze", "squeeze", "contiguous"};
  for (NodeId id : rule.once->model.graph()) {
    if (rule.once->model.graph()[id].op != Opcode::call_function) continue;
    const std::string_view name = read_form(*rule.once, id).name;
    if (std::find(std::begin(kMoves), std::end(kMoves), name) == std::end(kMoves)) return false;
  }
  return true;
}

std::vector<Param> weights_of_once(const Definition& rule, const Match& match) {
  std::vector<Param> weights;
  if (!rule.once) return weights;
  for (std::size_t i = 0; i < rule.variables.size(); ++i) {
    const auto it = rule.once->named.find(rule.variables[i].name);
    const Binding& binding = match.variables[i];
    if (it == rule.once->named.end() || !binding.state ||
        rule.once->model.graph().num_users(it->second) == 0)
      continue;
    const NodeId* node = binding.value.get<NodeId>();
    weights.push_back({binding.state, node ? *node : NodeId{}});
  }
  return weights;
}

std::vector<at::Tensor> compute_once(const Definition& rule, const Model& model,
                                     const Match& match) {
  if (!rule.once) return {};
  std::vector<at::Tensor> results = run_once(rule, model, match, /*types_only=*/false);
  const auto weights = weights_of_once(rule, match);
  const at::TensorBase& like = model.state().tensor(weights.at(0).state);
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  for (at::Tensor& result : results) {
    // Computed in fp64 and rounded once, to the dtype of the weight.
    const auto dtype =
        result.scalar_type() == at::kDouble ? like.scalar_type() : result.scalar_type();
    result = result.to(dtype, /*non_blocking=*/false, /*copy=*/true).contiguous();
    // An integer tensor cannot require gradients.
    if (at::isFloatingType(dtype)) result.set_requires_grad(like.requires_grad());
  }
  return results;
}

namespace {

// From what refx knows of the operators alone; none where that is not enough.
std::vector<TypePtr> inferred_types(const Definition& rule, const Model& model,
                                    const Match& match) {
  const Body& body = *rule.once;
  Values values = values_of(rule, body, match);
  std::map<NodeId, TypePtr> stored, types;
  auto find = [](const std::map<NodeId, TypePtr>& in, NodeId id) {
    const auto it = in.find(id);
    return it == in.end() ? nullptr : it->second;
  };
  auto add = [&](TypePtr type) {
    const NodeId id(static_cast<std::uint32_t>(types.size()) + 1);
    types.emplace(id, std::move(type));
    return id;
  };
  for (std::size_t i = 0; i < rule.variables.size(); ++i) {
    const auto it = body.named.find(rule.variables[i].name);
    const StateId state = match.variables[i].state;
    if (it == body.named.end() || !state) continue;
    const at::TensorBase& tensor = model.state().tensor(state);
    auto type = std::make_shared<TensorType>(*type_of(tensor));
    type->dtype = dtype_of_weight(rule, tensor);
    type->requires_grad = false;
    const NodeId weight = add(std::move(type));
    stored.emplace(weight, type_of(tensor));
    values[it->second.value] = weight;
  }
  const std::string problem = substitute(
      body, values, [&](NodeId id) { return find(stored, id); },
      [&](NodeId, const Reading& call) -> Arg {
        return add(result_type(call, [&](const Arg& arg) -> TypePtr {
          return arg.is<NodeId>() ? find(types, *arg.get<NodeId>()) : nullptr;
        }));
      });
  std::vector<TypePtr> results;
  for (const Arg& result : body.results) {
    const Arg value = substituted(result, values);
    const TypePtr type = value.is<NodeId>() ? find(types, *value.get<NodeId>()) : nullptr;
    if (!problem.empty() || !type) return {};
    results.push_back(type);
  }
  return results;
}

// With values only where an operator cannot do without.
std::vector<TypePtr> computed_types(const Definition& rule, const Model& model,
                                    const Match& match) {
  if (auto types = inferred_types(rule, model, match); !types.empty()) return types;
  std::vector<at::Tensor> results;
  try {
    // Without data first: it is faster, and needs no memory for the results.
    results = run_once(rule, model, match, /*types_only=*/true);
  } catch (const Error&) {
    results = run_once(rule, model, match, /*types_only=*/false);
  }
  std::vector<TypePtr> types;
  for (const at::Tensor& result : results) types.push_back(type_of(result));
  return types;
}

}  // namespace

std::vector<TypePtr> types_of_once(const Definition& rule, const Model& model, const Match& match) {
  std::vector<TypePtr> types;
  if (!rule.once) return types;
  const auto weights = weights_of_once(rule, match);
  const at::TensorBase& like = model.state().tensor(weights.at(0).state);
  for (const TypePtr& computed : computed_types(rule, model, match)) {
    auto type = std::make_shared<TensorType>(*computed);
    type->strides = contiguous_strides(type->sizes);
    if (type->dtype == at::kDouble) type->dtype = like.scalar_type();
    type->device = like.device();
    types.push_back(std::move(type));
  }
  return types;
}

std::vector<Piece> pieces_of_once(const Definition& rule, const Model& model, const Match& match,
                                  std::size_t result, StateId whole) {
  const Body& body = *rule.once;
  const NodeId* id = body.results[result].get<NodeId>();
  if (!id || body.model.graph()[*id].op != Opcode::call_function) return {};
  const Reading call = read_form(body, *id);
  const Reading::Given* tensors = call.find("tensors");
  const Reading::Given* dim = call.find("dim");
  if (call.name != "cat" || !tensors || !tensors->value.is<List>()) return {};
  std::vector<Piece> pieces;
  std::int64_t start = 0;
  const auto* along = dim ? dim->value.get<std::int64_t>() : nullptr;
  for (const Arg& item : tensors->value.get<List>()->items) {
    const NodeId* node = item.get<NodeId>();
    StateId part;
    for (std::size_t i = 0; node && i < rule.variables.size(); ++i)
      if (const auto it = body.named.find(rule.variables[i].name);
          it != body.named.end() && it->second == *node)
        part = match.variables[i].state;
    if (!part) return {};
    const at::TensorBase& tensor = model.state().tensor(part);
    std::int64_t axis = along ? *along : 0;
    // Pieces are stored with a dimension counted from the front.
    if (axis < 0) axis += tensor.dim();
    pieces.push_back({whole, part, axis, start, tensor.size(axis)});
    start += tensor.size(axis);
  }
  return pieces;
}

}  // namespace refx::rules
