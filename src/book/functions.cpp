// SPDX-License-Identifier: Apache-2.0

#include "book/functions.h"

#include <map>

#include "book/schemas.h"

namespace refx::book {

namespace {

constexpr const char* kDropout = "input p=0.5 training=True inplace=False";
constexpr const char* kInterpolate =
    "input size=None scale_factor=None mode='nearest' align_corners=None "
    "recompute_scale_factor=None antialias=False";
constexpr const char* kPool =
    "input kernel_size stride=None padding=0 dilation=1 ceil_mode=False return_indices=False";

struct Row {
  const char* name;
  const char* signature;
  const char* operation;
};
constexpr Row kRows[] = {
    {"relu", "input inplace=False", "aten.relu.default(input)"},
    {"relu6", "input inplace=False", "aten.relu6.default(input)"},
    {"silu", "input inplace=False", "aten.silu.default(input)"},
    {"mish", "input inplace=False", "aten.mish.default(input)"},
    {"selu", "input inplace=False", "aten.selu.default(input)"},
    {"celu", "input alpha=1.0 inplace=False", "aten.celu.default(input, alpha)"},
    {"elu", "input alpha=1.0 inplace=False", "aten.elu.default(input, alpha)"},
    {"leaky_relu", "input negative_slope=0.01 inplace=False",
     "aten.leaky_relu.default(input, negative_slope)"},
    {"hardtanh", "input min_val=-1.0 max_val=1.0 inplace=False",
     "aten.hardtanh.default(input, min_val, max_val)"},
    {"hardswish", "input inplace=False", "aten.hardswish.default(input)"},
    {"hardsigmoid", "input inplace=False", "aten.hardsigmoid.default(input)"},
    {"threshold", "input threshold value inplace=False",
     "aten.threshold.default(input, threshold, value)"},
    {"logsigmoid", "input", "aten.log_sigmoid.default(input)"},
    {"dropout", kDropout, "aten.dropout.default(input, p, training)"},
    {"alpha_dropout", kDropout, "aten.alpha_dropout.default(input, p, training)"},
    {"dropout1d", kDropout, "aten.feature_dropout.default(input, p, training)"},
    {"dropout2d", kDropout, "aten.feature_dropout.default(input, p, training)"},
    {"dropout3d", kDropout, "aten.feature_dropout.default(input, p, training)"},
    {"feature_alpha_dropout", kDropout, "aten.feature_alpha_dropout.default(input, p, training)"},
    {"softmax", "input dim _stacklevel=3 dtype=None", "aten.softmax.int(input, dim, dtype)"},
    {"log_softmax", "input dim _stacklevel=3 dtype=None",
     "aten.log_softmax.int(input, dim, dtype)"},
    {"batch_norm",
     "input running_mean running_var weight=None bias=None training=False momentum=0.1 eps=1e-5",
     "aten.batch_norm.default(input, weight, bias, running_mean, running_var, training, momentum, "
     "eps, True)"},
    {"instance_norm",
     "input running_mean=None running_var=None weight=None bias=None use_input_stats=True "
     "momentum=0.1 eps=1e-5",
     "aten.instance_norm.default(input, weight, bias, running_mean, running_var, use_input_stats, "
     "momentum, eps, True)"},
    {"max_pool1d", kPool,
     "aten.max_pool1d.default(input, kernel_size, stride, padding, dilation, ceil_mode)"},
    {"max_pool2d", kPool,
     "aten.max_pool2d.default(input, kernel_size, stride, padding, dilation, ceil_mode)"},
    {"max_pool3d", kPool,
     "aten.max_pool3d.default(input, kernel_size, stride, padding, dilation, ceil_mode)"},
    {"normalize", "input p=2.0 dim=1 eps=1e-12 out=None", "normalize(input, p, dim, eps)"},
    {"interpolate", kInterpolate,
     "interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, "
     "antialias)"},
    {"upsample", kInterpolate,
     "interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, "
     "antialias)"},
    {"embedding",
     "input weight padding_idx=None max_norm=None norm_type=2.0 scale_grad_by_freq=False "
     "sparse=False",
     "aten.embedding.default(weight, input)"},
};

}  // namespace

const Function* find_function(std::string_view name) {
  using Functions = std::map<std::string, Function, std::less<>>;
  static const Functions all = [] {
    Functions functions;
    for (const Row& row : kRows) {
      Function function{{}, parse_signature(row.signature), parse_operation(row.operation), {}};
      const Target target = parse_target(function.operation.target);
      function.op = target.name;
      function.schema = find_schema(target);
      functions.emplace(row.name, std::move(function));
    }
    return functions;
  }();
  const auto it = all.find(name);
  return it == all.end() ? nullptr : &it->second;
}

std::string_view function_spelling(std::string_view op) {
  static const std::map<std::string_view, std::string_view> all = {
      {"linear", "torch.nn.functional.linear"},
      {"scaled_dot_product_attention", "torch.nn.functional.scaled_dot_product_attention"},
      {"layer_norm", "torch.layer_norm"},
      {"rms_norm", "torch.rms_norm"},
      {"gelu", "torch.nn.functional.gelu"},
      {"silu", "torch._C._nn.silu"},
      {"conv1d", "torch.conv1d"},
      {"conv2d", "torch.conv2d"},
      {"conv3d", "torch.conv3d"},
      {"matmul", "torch.matmul"},
      {"add", "torch.add"},
      {"sub", "torch.sub"},
      {"mul", "torch.mul"},
      {"div", "torch.div"},
      {"pow", "torch.pow"},
      {"where", "torch.where"},
      {"transpose", "torch.transpose"},
      {"reshape", "torch.reshape"},
      {"cat", "torch.cat"},
      {"relu", "torch.relu"},
      {"sigmoid", "torch.sigmoid"},
      {"tanh", "torch.tanh"},
      {"sqrt", "torch.sqrt"},
      {"rsqrt", "torch.rsqrt"},
      {"neg", "torch.neg"},
      {"exp", "torch.exp"},
      {"abs", "torch.abs"},
      {"clone", "torch.clone"},
  };
  const auto it = all.find(op);
  return it == all.end() ? std::string_view() : it->second;
}

}  // namespace refx::book
