// SPDX-License-Identifier: Apache-2.0

#include "ops/fold.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "refx/error.h"

namespace refx {

namespace {

at::Tensor wide(const Model& model, const Param& param) {
  return tensor_of(model, param).detach().to(at::kCPU, at::kDouble);
}

bool all_finite(const at::Tensor& tensor) { return at::isfinite(tensor).all().item<bool>(); }

}  // namespace

Affine affine_of(const Model& model, const BatchNormOp& norm) {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  const at::Tensor mean = wide(model, norm.mean), var = wide(model, norm.var);
  const at::Tensor weight = norm.weight ? wide(model, *norm.weight) : at::ones_like(mean);
  const at::Tensor bias = norm.bias ? wide(model, *norm.bias) : at::zeros_like(mean);
  const at::Tensor scale = weight / at::sqrt(var + norm.eps);
  return {scale, bias - mean * scale};
}

std::optional<Reason> why_not_foldable(const Model& model, const Layer& layer,
                                       const BatchNormOp& norm, std::optional<Sharing>& sharing) {
  for (const Param* param : {&layer.weight, layer.bias ? &*layer.bias : nullptr})
    if (param) {
      if (auto why = why_not_separable(model, *param, sharing)) return why;
      if (auto why = why_not_readable(model, *param)) return why;
    }
  const at::TensorBase& weight = model.state().tensor(layer.weight.state);
  for (const Param& param : norm.tensors()) {
    const Name& name = model.state()[param.state].name;
    const at::TensorBase& tensor = model.state().tensor(param.state);
    if (tensor.scalar_type() != weight.scalar_type())
      return because<ReasonId::norm_dtype_differs>(c10::toString(weight.scalar_type()), name,
                                                   c10::toString(tensor.scalar_type()));
    if (tensor.device() != weight.device()) return because<ReasonId::norm_device_differs>();
    if (tensor.dim() != 1) return because<ReasonId::not_a_vector>(name);
    if (tensor.sizes() != model.state().tensor(norm.mean.state).sizes())
      return because<ReasonId::size_differs_from_mean>(name);
  }
  const at::Tensor var = wide(model, norm.var) + norm.eps;
  if (!all_finite(var) || !(var > 0).all().item<bool>())
    return because<ReasonId::variance_not_positive>();
  const Affine affine = affine_of(model, norm);
  if (!all_finite(affine.scale) || !all_finite(affine.shift))
    return because<ReasonId::scale_not_finite>();
  return {};
}

namespace {

double largest(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return std::numeric_limits<double>::max();
    case at::kHalf:
      return 65504;
    case at::kBFloat16:
      return 3.38e38;
    default:
      return std::numeric_limits<float>::max();
  }
}

// The largest magnitude; not finite if any element is not.
double magnitude(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  const auto [low, high] = at::aminmax(tensor);
  return std::max(std::abs(low.item<double>()), std::abs(high.item<double>()));
}

// weight * factor in fp64, rounded once; nothing if an element of the result is not finite. Works
// on a few rows at a time, so that the copies in fp64 stay in the cache.
std::optional<at::Tensor> scaled(const at::Tensor& weight, const at::Tensor& factors) {
  constexpr std::int64_t kAtOnce = 1 << 15;  // elements: 256 KB in fp64, less than an L2 cache
  const at::Tensor factor = factors.to(weight.device());
  at::Tensor result = at::empty_like(weight);  // with the weight's strides, if it is dense
  const std::int64_t rows = weight.size(0);
  const std::int64_t step =
      std::max<std::int64_t>(1, kAtOnce * rows / std::max<std::int64_t>(1, weight.numel()));
  for (std::int64_t start = 0; start < rows; start += step) {
    const std::int64_t count = std::min(step, rows - start);
    const at::Tensor part = factor.size(0) == 1 ? factor : factor.narrow(0, start, count);
    // Copied even if it is fp64 already: the weight itself must not be written.
    const at::Tensor wide = weight.narrow(0, start, count).to(at::kDouble, false, /*copy=*/true);
    result.narrow(0, start, count).copy_(wide.mul_(part));
  }
  return std::isfinite(magnitude(result)) ? std::optional(result) : std::nullopt;
}

}  // namespace

std::optional<Reason> why_not_finite(const Model& model, const Layer& layer, const Fold& fold) {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  const at::Tensor weight = tensor_of(model, layer.weight).detach();
  if (!all_finite(fold.bias.to(weight.scalar_type())))
    return because<ReasonId::folded_not_finite>();
  // Nearly every layer is within this bound, which costs one pass over the weight. It is 1 % below
  // the largest number of the type, because the product here is rounded differently.
  if (magnitude(weight) * magnitude(fold.factor) < 0.99 * largest(weight.scalar_type())) return {};
  if (!scaled(weight, fold.factor)) return because<ReasonId::folded_not_finite>();
  return {};
}

std::optional<Layer> set_folded(Editor& editor, const Layer& old, const Fold& fold, NodeId node) {
  Layer layer = old;
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  const at::Tensor weight = tensor_of(editor.model(), layer.weight);
  std::optional<at::Tensor> folded = scaled(weight.detach(), fold.factor);
  at::Tensor new_bias = fold.bias.to(weight.device(), weight.scalar_type());
  if (!folded || !all_finite(new_bias)) return std::nullopt;
  at::Tensor new_weight = std::move(*folded);
  new_weight.set_requires_grad(weight.requires_grad());
  layer.weight = assign_param_to(editor, layer.weight, new_weight, node);
  if (layer.bias) {
    new_bias.set_requires_grad(tensor_of(editor.model(), *layer.bias).requires_grad());
    layer.bias = assign_param_to(editor, *layer.bias, new_bias, node);
    return layer;
  }
  new_bias.set_requires_grad(weight.requires_grad());
  // Beside "conv.weight" it is "conv.bias"; beside "kernel", a tensor without a module,
  // "kernel_bias".
  const Name& weight_name = editor.state()[layer.weight.state].name;
  const std::string own = weight_name.find('.') == weight_name.npos
                              ? weight_name + "_bias"
                              : fmt::format("{}.bias", owner_path(weight_name));
  const Name name = editor.state().find(own) ? editor.state().fresh_name(own) : Name(own);
  if (layer.module) set_module_parameter(editor, layer.module, "bias", true);
  layer.bias = add_param(editor, layer.weight, name, new_bias, node);
  return layer;
}

void erase_unread(Editor& editor, const Layer& former) {
  for (const auto& param : {std::optional(former.weight), former.bias})
    if (param && param->node && editor.graph()[param->node].op == Opcode::get_attr &&
        editor.graph().num_uses(param->node) == 0)
      editor.erase_node(param->node);
}

}  // namespace refx
