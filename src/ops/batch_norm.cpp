// SPDX-License-Identifier: Apache-2.0

#include "ops/batch_norm.h"

namespace refx {

namespace {

bool given(const std::optional<Arg>& arg) { return arg && !arg->is<None>(); }

// Python takes integers for truth values and for floats.
bool is_false(const Arg& arg) {
  if (const auto* number = arg.get<std::int64_t>()) return *number == 0;
  return arg.get<bool>() && !*arg.get<bool>();
}

std::optional<double> number(const Arg& arg) {
  if (const auto* integer = arg.get<std::int64_t>()) return static_cast<double>(*integer);
  return arg.get<double>() ? std::optional(*arg.get<double>()) : std::nullopt;
}

void set_eps(const std::optional<Arg>& eps, BatchNormOp& norm) {
  if (!eps) return;
  if (const auto value = number(*eps))
    norm.eps = *value;
  else if (!norm.problem)
    norm.problem = because<ReasonId::norm_eps_not_number>();
}

void set_input(const book::Call& call, BatchNormOp& norm) {
  norm.input = call.value("input");
  if (!norm.input && !norm.problem) norm.problem = because<ReasonId::norm_input_not_tensor>();
}

void match_call(const Model& model, const book::Call& call, BatchNormOp& norm) {
  auto stored = [&](const std::optional<Arg>& arg) {
    return param_of(model, arg ? &*arg : nullptr);
  };
  const auto training = call.argument("training");
  const auto weight = call.argument("weight"), bias = call.argument("bias");
  const auto running_mean = call.argument("running_mean"),
             running_var = call.argument("running_var");
  norm.weight = stored(weight);
  norm.bias = stored(bias);
  if (const auto mean = stored(running_mean)) norm.mean = *mean;
  if (const auto var = stored(running_var)) norm.var = *var;
  if (!training || !is_false(*training))
    norm.problem = because<ReasonId::norm_in_training>();
  else if (!given(running_mean) || !given(running_var))
    norm.problem = because<ReasonId::norm_without_statistics>();
  else
    for (const auto& part : {running_mean, running_var, weight, bias})
      if (given(part) && !stored(part) && !norm.problem)
        norm.problem = is_graph_input(model, &*part) ? because<ReasonId::norm_tensor_is_input>()
                                                     : because<ReasonId::norm_tensor_is_computed>();
}

void match_module(const Model& model, const book::Call& call, BatchNormOp& norm) {
  const Module& module = *call.module();
  auto stored = [](StateId state) {
    return state ? std::optional(Param{state, {}}) : std::nullopt;
  };
  const auto mean = stored(call.tensor("running_mean")), var = stored(call.tensor("running_var"));
  norm.weight = stored(call.tensor("weight"));
  norm.bias = stored(call.tensor("bias"));
  // The counter goes with the layer, although no operator reads it here.
  norm.batches = stored(model.state().find(module.name + ".num_batches_tracked"));
  if (mean) norm.mean = *mean;
  if (var) norm.var = *var;
  if (!module.custom.empty())
    norm.problem = because<ReasonId::module_is_custom>(module.name, module.custom);
  else if (module.training)
    norm.problem = because<ReasonId::norm_in_training>();
  else if (!mean || !var)
    norm.problem = because<ReasonId::norm_without_statistics>();
  else if (model.graph().num_callers(module.name) > 1)
    norm.problem = because<ReasonId::module_used_elsewhere>(module.name);
}

}  // namespace

std::optional<BatchNormOp> BatchNormOp::match(const Model& model, NodeId id) {
  const book::Call call(model, model.graph()[id]);
  if (!call.is("batch_norm") || call.spelled() == book::Call::Spelled::method) return std::nullopt;
  BatchNormOp norm;
  norm.node = id;
  if (call.spelled() == book::Call::Spelled::module) {
    norm.module = model.modules().find(call.module()->name);
    match_module(model, call, norm);
  } else {
    match_call(model, call, norm);
  }
  set_input(call, norm);
  set_eps(call.argument("eps"), norm);
  if (norm.problem) return norm;
  for (const Param& param : norm.tensors()) {
    if (!norm.problem) norm.problem = why_shared(model, param);
    if (!norm.problem) norm.problem = why_not_readable(model, param);
  }
  if (norm.batches && !norm.problem) norm.problem = why_shared(model, *norm.batches);
  return norm;
}

std::vector<Param> BatchNormOp::tensors() const {
  std::vector<Param> params;
  if (weight) params.push_back(*weight);
  if (bias) params.push_back(*bias);
  params.push_back(mean);
  params.push_back(var);
  return params;
}

void BatchNormOp::erase_tensors(Editor& editor) const {
  for (const Param& param : tensors()) erase_param(editor, param);
  if (batches) erase_param(editor, *batches);
  if (module) editor.erase_module(module);
}

}  // namespace refx
