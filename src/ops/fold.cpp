// SPDX-License-Identifier: Apache-2.0

#include "ops/fold.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/loops.h"
#include "ops/new_weight.h"
#include "refx/error.h"

namespace refx {

namespace {

using Numbers = std::vector<double>;

// Plain loops over short vectors: an operator of torch costs more than their numbers.
Numbers numbers(const at::Tensor& tensor) {
  if (tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous()) {
    const float* data = tensor.const_data_ptr<float>();
    return {data, data + tensor.numel()};
  }
  const at::Tensor wide = tensor.to(at::kCPU, at::kDouble).contiguous();
  const double* data = wide.const_data_ptr<double>();
  return {data, data + wide.numel()};
}

Numbers numbers(const Model& model, const Param& param) {
  return numbers(tensor_of(model, param).detach());
}

bool all_finite(const Numbers& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); });
}

}  // namespace

Affine affine_of(const Model& model, const BatchNormOp& norm) {
  const c10::InferenceMode ordinary_tensors(false);
  const Numbers mean = numbers(model, norm.mean), var = numbers(model, norm.var);
  const std::size_t size = mean.size();
  const Numbers weight = norm.weight ? numbers(model, *norm.weight) : Numbers(size, 1.0);
  const Numbers bias = norm.bias ? numbers(model, *norm.bias) : Numbers(size, 0.0);
  const auto length = static_cast<std::int64_t>(size);
  Affine affine{at::empty({length}, at::kDouble), at::empty({length}, at::kDouble)};
  refx::affine({mean.data(), var.data(), weight.data(), bias.data(), norm.eps},
               affine.scale.mutable_data_ptr<double>(), affine.shift.mutable_data_ptr<double>(),
               size);
  return affine;
}

std::string why_not_foldable(const Model& model, const Layer& layer, const BatchNormOp& norm,
                             std::optional<Sharing>& sharing) {
  for (const Param* param : {&layer.weight, layer.bias ? &*layer.bias : nullptr})
    if (param) {
      if (std::string why = why_not_parted(model, *param, sharing); !why.empty()) return why;
      if (std::string why = why_no_numbers(model, *param); !why.empty()) return why;
    }
  const at::TensorBase& weight = model.state().tensor(layer.weight.state);
  for (const Param& param : norm.tensors()) {
    const Name& name = model.state()[param.state].name;
    const at::TensorBase& tensor = model.state().tensor(param.state);
    if (tensor.scalar_type() != weight.scalar_type())
      return fmt::format("the layer is {} but the batch norm's '{}' is {}",
                         c10::toString(weight.scalar_type()), name,
                         c10::toString(tensor.scalar_type()));
    if (tensor.device() != weight.device())
      return "the layer and the batch norm are on different devices";
    if (tensor.dim() != 1) return fmt::format("'{}' is not a vector", name);
    if (tensor.sizes() != model.state().tensor(norm.mean.state).sizes())
      return fmt::format("'{}' has another size than the batch norm's mean", name);
  }
  for (const double var : numbers(model, norm.var))
    if (!(var + norm.eps > 0) || !std::isfinite(var + norm.eps))
      return "var + eps of the batch norm is zero, negative or not finite in some channel";
  const Affine affine = affine_of(model, norm);
  if (!all_finite(numbers(affine.scale)) || !all_finite(numbers(affine.shift)))
    return "the batch norm's scale or shift is not finite in some channel";
  return "";
}

namespace {

constexpr const char* kNotFinite = "the folded weights are not finite in the layer's dtype";
constexpr std::int64_t kAtOnce = 1 << 15;  // numbers

// Floats in memory as rows, one after the other, each with one factor: nearly every layer.
bool is_rows(const at::Tensor& weight, const at::Tensor& factor) {
  const std::int64_t rows = weight.size(0);
  return weight.is_cpu() && weight.scalar_type() == at::kFloat && factor.is_contiguous() &&
         factor.size(0) == rows && factor.numel() == rows && weight.numel() > 0 &&
         weight.is_non_overlapping_and_dense() &&
         (rows == 1 || weight.stride(0) == weight.numel() / rows);
}

// One pass over the memory; the same products and roundings as below.
std::optional<at::Tensor> scaled_rows(const at::Tensor& weight, const at::Tensor& factor) {
  at::Tensor result = empty_like_weight(weight);
  const std::int64_t rows = weight.size(0), width = weight.numel() / rows;
  const float* in = weight.const_data_ptr<float>();
  const double* factors = factor.const_data_ptr<double>();
  float* out = result.mutable_data_ptr<float>();
  std::atomic<bool> finite = true;
  at::parallel_for(0, rows, std::max<std::int64_t>(1, kAtOnce / width), [&](auto begin, auto end) {
    if (!scale_rows(in + begin * width, factors + begin, out + begin * width, end - begin, width))
      finite = false;
  });
  return finite ? std::optional(result) : std::nullopt;
}

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

// The largest magnitude; not finite, if any element is not.
double magnitude(const at::Tensor& weight) {
  if (weight.numel() == 0) return 0;
  if (weight.is_cpu() && weight.scalar_type() == at::kFloat &&
      weight.is_non_overlapping_and_dense()) {
    const float* data = weight.const_data_ptr<float>();
    auto larger = [](std::uint32_t a, std::uint32_t b) { return std::max(a, b); };
    return std::bit_cast<float>(at::parallel_reduce(
        0, weight.numel(), kAtOnce, std::uint32_t{0},
        [&](std::int64_t begin, std::int64_t end, std::uint32_t so_far) {
          return larger(so_far, largest_bits(data + begin, end - begin));
        },
        larger));
  }
  const auto [low, high] = at::aminmax(weight);
  return std::max(std::abs(low.item<double>()), std::abs(high.item<double>()));
}

// weight * factor in fp64, rounded once; a few rows at a time, so that what is wide stays in the
// cache. None if any of it is not finite then.
std::optional<at::Tensor> scaled(const at::Tensor& weight, const at::Tensor& factors) {
  if (is_rows(weight, factors)) return scaled_rows(weight, factors);
  const at::Tensor factor = factors.to(weight.device());
  at::Tensor result = empty_like_weight(weight);  // with its strides, where it is dense
  const std::int64_t rows = weight.size(0);
  const std::int64_t step =
      std::max<std::int64_t>(1, kAtOnce * rows / std::max<std::int64_t>(1, weight.numel()));
  for (std::int64_t start = 0; start < rows; start += step) {
    const std::int64_t count = std::min(step, rows - start);
    const at::Tensor part = factor.size(0) == 1 ? factor : factor.narrow(0, start, count);
    // A copy even of doubles: the weight itself is not to be written.
    const at::Tensor wide = weight.narrow(0, start, count).to(at::kDouble, false, /*copy=*/true);
    result.narrow(0, start, count).copy_(wide.mul_(part));
  }
  return std::isfinite(magnitude(result)) ? std::optional(result) : std::nullopt;
}

}  // namespace

std::string why_not_finite(const Model& model, const Layer& layer, const Fold& fold) {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  const at::Tensor weight = tensor_of(model, layer.weight).detach();
  if (!all_finite(numbers(fold.bias.to(weight.scalar_type())))) return kNotFinite;
  // A bound that nearly every layer keeps, and costs one pass.
  double most = 0;
  for (const double factor : numbers(fold.factor)) most = std::max(most, std::abs(factor));
  if (magnitude(weight) * most < 0.99 * largest(weight.scalar_type())) return "";
  return scaled(weight, fold.factor) ? "" : kNotFinite;
}

Layer set_folded(Editor& editor, const Layer& old, const Fold& fold, NodeId node) {
  Layer layer = old;
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  const at::Tensor weight = tensor_of(editor.model(), layer.weight);
  std::optional<at::Tensor> folded = scaled(weight.detach(), fold.factor);
  at::Tensor new_bias = fold.bias.to(weight.device(), weight.scalar_type());
  if (!folded || !all_finite(numbers(new_bias))) throw Refused(kNotFinite);
  at::Tensor new_weight = std::move(*folded);
  new_weight.set_requires_grad(weight.requires_grad());
  layer.weight = give_param(editor, layer.weight, new_weight, node);
  if (layer.bias) {
    new_bias.set_requires_grad(tensor_of(editor.model(), *layer.bias).requires_grad());
    layer.bias = give_param(editor, *layer.bias, new_bias, node);
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
