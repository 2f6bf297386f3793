#include "ops/batch_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

namespace refx {

namespace {

struct Parts {
  const Arg *weight, *bias, *mean, *var, *training, *eps;
};

// F.batch_norm has the statistics before weight and bias, aten has them after.
Parts parts_of(const Node& node, bool functional) {
  const std::size_t shift = functional ? 2 : 0;
  return {argument(node, 1 + shift, "weight"),
          argument(node, 2 + shift, "bias"),
          argument(node, 3 - shift, "running_mean"),
          argument(node, 4 - shift, "running_var"),
          argument(node, 5, "training"),
          argument(node, 7, "eps")};
}

bool given(const Arg* arg) { return arg && !arg->is<None>(); }

void match_call(const Model& model, const Node& node, bool functional, BatchNormOp& norm) {
  const Parts parts = parts_of(node, functional);
  const bool* training = parts.training ? parts.training->get<bool>() : nullptr;
  const Arg* input = argument(node, 0, "input");
  const auto mean = param_of(model, parts.mean), var = param_of(model, parts.var);
  norm.weight = param_of(model, parts.weight);
  norm.bias = param_of(model, parts.bias);
  if (parts.eps && parts.eps->get<double>()) norm.eps = *parts.eps->get<double>();
  if (functional ? training && *training : !training || *training)
    norm.problem = "the batch norm is in training mode";
  else if (!given(parts.mean) || !given(parts.var))
    norm.problem = "the batch norm has no running statistics";
  else if (!mean || !var || (given(parts.weight) && !norm.weight) || (given(parts.bias) && !norm.bias))
    norm.problem = "a tensor of the batch norm is computed, not stored";
  else if (!input || !input->is<NodeId>())
    norm.problem = "the batch norm's input is not a tensor of the graph";
  if (!norm.problem.empty()) return;
  norm.input = *input->get<NodeId>();
  norm.mean = *mean;
  norm.var = *var;
}

void match_module(const Model& model, const Node& node, BatchNormOp& norm) {
  const Module& module = model.modules()[norm.module];
  auto tensor = [&](const char* name) -> std::optional<Param> {
    const StateId state = model.state().find(module.name + "." + name);
    return state ? std::optional(Param{state, {}}) : std::nullopt;
  };
  const auto mean = tensor("running_mean"), var = tensor("running_var");
  const Arg* input = argument(node, 0, "input");
  norm.weight = tensor("weight");
  norm.bias = tensor("bias");
  norm.batches = tensor("num_batches_tracked");
  if (const Arg* eps = parameter(module, "eps"); eps && eps->get<double>())
    norm.eps = *eps->get<double>();
  if (!module.custom.empty())
    norm.problem = fmt::format("module '{}' {}", module.name, module.custom);
  else if (module.training)
    norm.problem = "the batch norm is in training mode";
  else if (!mean || !var)
    norm.problem = "the batch norm has no running statistics";
  else if (model.graph().callers(module.name).size() > 1)
    norm.problem = fmt::format("module '{}' is used in more than one place", module.name);
  else if (!input || !input->is<NodeId>())
    norm.problem = "the batch norm's input is not a tensor of the graph";
  if (!norm.problem.empty()) return;
  norm.input = *input->get<NodeId>();
  norm.mean = *mean;
  norm.var = *var;
}

template <class F>
void for_each_tensor(const BatchNormOp& norm, F&& f) {
  if (norm.weight) f(*norm.weight);
  if (norm.bias) f(*norm.bias);
  f(norm.mean);
  f(norm.var);
}

at::Tensor in_double(const Model& model, const Param& param) {
  return tensor_of(model, param).detach().to(at::kDouble);
}

}  // namespace

std::optional<BatchNormOp> BatchNormOp::match(const Model& model, NodeId id) {
  const Node& node = model.graph()[id];
  BatchNormOp norm;
  norm.node = id;
  if (node.op == Opcode::call_module) {
    const std::string_view type = operator_name(model, node);
    if (type != "torch.nn.BatchNorm1d" && type != "torch.nn.BatchNorm2d") return std::nullopt;
    norm.module = model.modules().find(node.target);
    match_module(model, node, norm);
  } else if (node.op == Opcode::call_function && operator_name(model, node) == "batch_norm") {
    match_call(model, node, node.target == "torch.nn.functional.batch_norm", norm);
  } else {
    return std::nullopt;
  }
  if (!norm.problem.empty()) return norm;
  for_each_tensor(norm, [&](const Param& param) {
    if (norm.problem.empty()) norm.problem = why_shared(model, param);
    if (norm.problem.empty()) norm.problem = why_not_dense(model, param);
  });
  return norm;
}

std::string BatchNormOp::path(const Model& model) const {
  if (module) return model.modules()[module].name;
  if (!mean.state) return place_name(model.graph()[node]);
  return owner_path(model.state()[mean.state].name);
}

void BatchNormOp::erase_tensors(Editor& editor) const {
  for_each_tensor(*this, [&](const Param& param) { erase_param(editor, param); });
  if (batches) erase_param(editor, *batches);
  if (module) editor.erase_module(module);
}

Affine affine_of(const Model& model, const BatchNormOp& norm) {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  const at::Tensor mean = in_double(model, norm.mean);
  const at::Tensor deviation = (in_double(model, norm.var) + norm.eps).sqrt();
  const at::Tensor weight = norm.weight ? in_double(model, *norm.weight) : at::ones_like(mean);
  const at::Tensor bias = norm.bias ? in_double(model, *norm.bias) : at::zeros_like(mean);
  Affine affine;
  affine.scale = weight / deviation;
  affine.shift = bias - mean * affine.scale;
  return affine;
}

std::string why_not_foldable(const Model& model, const Layer& layer, const BatchNormOp& norm) {
  const at::TensorBase& weight = model.state().tensor(layer.weight.state);
  std::string why;
  for_each_tensor(norm, [&](const Param& param) {
    const at::TensorBase& tensor = model.state().tensor(param.state);
    if (!why.empty()) return;
    if (tensor.scalar_type() != weight.scalar_type())
      why = fmt::format("the layer is {} but the batch norm's '{}' is {}",
                        c10::toString(weight.scalar_type()), model.state()[param.state].name,
                        c10::toString(tensor.scalar_type()));
    else if (tensor.device() != weight.device())
      why = "the layer and the batch norm are on different devices";
    else if (tensor.dim() != 1)
      why = fmt::format("'{}' is not a vector", model.state()[param.state].name);
  });
  if (!why.empty()) return why;
  const at::Tensor variance = in_double(model, norm.var) + norm.eps;
  if (!variance.gt(0).all().item<bool>() || !at::isfinite(variance).all().item<bool>())
    return "var + eps of the batch norm is zero, negative or not finite in some channel";
  const Affine affine = affine_of(model, norm);
  if (!at::isfinite(affine.scale).all().item<bool>() || !at::isfinite(affine.shift).all().item<bool>())
    return "the batch norm's scale or shift is not finite in some channel";
  return "";
}

namespace {

at::Tensor rounded_like(const at::Tensor& values, const at::Tensor& like) {
  at::Tensor result = at::empty_strided(like.sizes(), like.strides(), like.options());
  result.copy_(values);
  result.set_requires_grad(like.requires_grad());
  return result;
}

}  // namespace

std::optional<Param> set_folded(Editor& editor, const Layer& layer, const at::Tensor& weight,
                                const at::Tensor& bias, NodeId node) {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  const at::Tensor old_weight = tensor_of(editor.model(), layer.weight);
  set_param(editor, layer.weight, rounded_like(weight, old_weight));
  if (layer.bias) {
    set_param(editor, *layer.bias, rounded_like(bias, tensor_of(editor.model(), *layer.bias)));
    return layer.bias;
  }
  at::Tensor new_bias = bias.to(old_weight.scalar_type());
  new_bias.set_requires_grad(old_weight.requires_grad());
  const std::string path = owner_path(editor.state()[layer.weight.state].name);
  const std::string name = editor.state().fresh_name(path + ".bias");
  if (layer.module) set_module_parameter(editor, layer.module, "bias", true);
  return add_param(editor, layer.weight, name, new_bias, node);
}

bool folds_finitely(const Model& model, const Layer& layer, const at::Tensor& weight,
                    const at::Tensor& bias) {
  const auto dtype = model.state().tensor(layer.weight.state).scalar_type();
  return at::isfinite(weight.to(dtype)).all().item<bool>() &&
         at::isfinite(bias.to(dtype)).all().item<bool>();
}

}  // namespace refx
