#include "ops/batch_norm.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

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
  else if (norm.problem.empty())
    norm.problem = "the batch norm's eps is not a number";
}

void set_input(const book::Call& call, BatchNormOp& norm) {
  norm.input = call.value("input");
  if (!norm.input && norm.problem.empty())
    norm.problem = "the batch norm's input is not a tensor of the graph";
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
    norm.problem = "the batch norm is in training mode";
  else if (!given(running_mean) || !given(running_var))
    norm.problem = "the batch norm has no running statistics";
  else
    for (const auto& part : {running_mean, running_var, weight, bias})
      if (given(part) && !stored(part) && norm.problem.empty())
        norm.problem = fmt::format("a tensor of the batch norm {}", why_not_stored(model, &*part));
}

void match_module(const Model& model, const book::Call& call, BatchNormOp& norm) {
  const Module& module = *call.module();
  auto stored = [](StateId state) {
    return state ? std::optional(Param{state, {}}) : std::nullopt;
  };
  const auto mean = stored(call.tensor("running_mean")), var = stored(call.tensor("running_var"));
  norm.weight = stored(call.tensor("weight"));
  norm.bias = stored(call.tensor("bias"));
  norm.batches = stored(model.state().find(module.name + ".num_batches_tracked"));
  if (mean) norm.mean = *mean;
  if (var) norm.var = *var;
  if (!module.custom.empty())
    norm.problem = fmt::format("module '{}' {}", module.name, module.custom);
  else if (module.training)
    norm.problem = "the batch norm is in training mode";
  else if (!mean || !var)
    norm.problem = "the batch norm has no running statistics";
  else if (model.graph().num_callers(module.name) > 1)
    norm.problem = fmt::format("module '{}' is used in more than one place", module.name);
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
  const book::Call call(model, model.graph()[id]);
  if (!call.is("batch_norm") || call.spelled() == book::Call::Spelled::method) return std::nullopt;
  if (call.module() && !book::find_layer(call.module()->type)->rewritten) return std::nullopt;
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
  if (!norm.problem.empty()) return norm;
  for_each_tensor(norm, [&](const Param& param) {
    if (norm.problem.empty()) norm.problem = why_shared(model, param);
    if (norm.problem.empty()) norm.problem = why_not_dense(model, param);
  });
  if (norm.batches && norm.problem.empty()) norm.problem = why_shared(model, *norm.batches);
  return norm;
}

std::string BatchNormOp::path(const Model& model) const {
  if (module) return model.modules()[module].name;
  if (!mean.state) return site_name(model.graph()[node]);
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
    else if (tensor.sizes() != model.state().tensor(norm.mean.state).sizes())
      why = fmt::format("'{}' has another size than the batch norm's mean",
                        model.state()[param.state].name);
  });
  if (!why.empty()) return why;
  const at::Tensor variance = in_double(model, norm.var) + norm.eps;
  if (!variance.gt(0).all().item<bool>() || !at::isfinite(variance).all().item<bool>())
    return "var + eps of the batch norm is zero, negative or not finite in some channel";
  const Affine affine = affine_of(model, norm);
  if (!at::isfinite(affine.scale).all().item<bool>() ||
      !at::isfinite(affine.shift).all().item<bool>())
    return "the batch norm's scale or shift is not finite in some channel";
  return "";
}

namespace {

// Floats in memory as rows, one after the other, each with one factor: nearly every layer.
bool is_rows(const at::Tensor& weight, const at::Tensor& factor) {
  const std::int64_t rows = weight.size(0);
  return weight.is_cpu() && weight.scalar_type() == at::kFloat && factor.is_contiguous() &&
         factor.size(0) == rows && factor.numel() == rows && weight.numel() > 0 &&
         weight.is_non_overlapping_and_dense() &&
         (rows == 1 || weight.stride(0) == weight.numel() / rows);
}

// One pass over the memory; the same products and roundings as below.
at::Tensor scaled_rows(const at::Tensor& weight, const at::Tensor& factor) {
  at::Tensor result = at::empty_like(weight);
  const std::int64_t rows = weight.size(0), width = weight.numel() / rows;
  const float* in = weight.const_data_ptr<float>();
  const double* factors = factor.const_data_ptr<double>();
  float* out = result.mutable_data_ptr<float>();
  at::parallel_for(0, rows, std::max<std::int64_t>(1, (1 << 15) / width),
                   [&](auto begin, auto end) {
                     for (std::int64_t row = begin; row < end; ++row)
                       for (std::int64_t i = row * width; i < (row + 1) * width; ++i)
                         out[i] = static_cast<float>(in[i] * factors[row]);
                   });
  return result;
}

// weight * factor in fp64, rounded once; a few rows at a time, so that what is wide stays in the
// cache.
at::Tensor scaled(const at::Tensor& weight, const at::Tensor& factor) {
  if (is_rows(weight, factor)) return scaled_rows(weight, factor);
  constexpr std::int64_t kAtOnce = 1 << 15;
  at::Tensor result = at::empty_like(weight);  // with its strides, where it is dense
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
  return result;
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
  if (weight.is_cpu() && weight.scalar_type() == at::kFloat &&
      weight.is_non_overlapping_and_dense()) {
    // Without its sign a float is the larger the larger its bits are, infinity and nan last.
    const float* data = weight.const_data_ptr<float>();
    std::uint32_t most = 0;
    for (std::int64_t i = 0; i < weight.numel(); ++i)
      most = std::max(most, std::bit_cast<std::uint32_t>(data[i]) & 0x7fffffffu);
    return std::bit_cast<float>(most);
  }
  const auto [low, high] = at::aminmax(weight);
  return std::max(std::abs(low.item<double>()), std::abs(high.item<double>()));
}

}  // namespace

bool folds_finitely(const Model& model, const Layer& layer, const Fold& fold) {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  const at::Tensor weight = tensor_of(model, layer.weight).detach();
  if (!at::isfinite(fold.bias.to(weight.scalar_type())).all().item<bool>()) return false;
  if (weight.numel() == 0) return true;
  // A bound that nearly every layer keeps, and costs one pass.
  const double bound = magnitude(weight) * fold.factor.abs().max().item<double>();
  if (bound < 0.99 * largest(weight.scalar_type())) return true;
  return at::isfinite(scaled(weight, fold.factor)).all().item<bool>();
}

std::optional<Param> set_folded(Editor& editor, const Layer& layer, const Fold& fold, NodeId node) {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  const at::Tensor weight = tensor_of(editor.model(), layer.weight);
  at::Tensor new_weight = scaled(weight.detach(), fold.factor);
  at::Tensor new_bias = fold.bias.to(weight.scalar_type());
  new_weight.set_requires_grad(weight.requires_grad());
  set_param(editor, layer.weight, new_weight);
  if (layer.bias) {
    new_bias.set_requires_grad(tensor_of(editor.model(), *layer.bias).requires_grad());
    set_param(editor, *layer.bias, new_bias);
    return layer.bias;
  }
  new_bias.set_requires_grad(weight.requires_grad());
  // Beside "conv.weight" it is "conv.bias"; beside "kernel", a tensor without a module,
  // "kernel_bias".
  const std::string& weight_name = editor.state()[layer.weight.state].name;
  const std::string own = weight_name.find('.') == weight_name.npos
                              ? weight_name + "_bias"
                              : owner_path(weight_name) + ".bias";
  const std::string name = editor.state().find(own) ? editor.state().fresh_name(own) : own;
  if (layer.module) set_module_parameter(editor, layer.module, "bias", true);
  return add_param(editor, layer.weight, name, new_bias, node);
}

}  // namespace refx
