// SPDX-License-Identifier: Apache-2.0

#include "book/layers.h"

#include <algorithm>
#include <unordered_map>

#include "book/schemas.h"
#include "refx/layers.h"

namespace refx::book {

namespace {

constexpr const char* kConv =
    "in_channels=0 out_channels=0 kernel_size=0 stride=1 padding=0 dilation=1 groups=1 bias=True "
    "padding_mode='zeros'";
constexpr const char* kConvTranspose =
    "in_channels=0 out_channels=0 kernel_size=0 stride=1 padding=0 output_padding=0 groups=1 "
    "bias=True dilation=1 padding_mode='zeros'";
constexpr const char* kBatchNorm =
    "num_features=0 eps=1e-5 momentum=0.1 affine=True track_running_stats=True";
constexpr const char* kInstanceNorm =
    "num_features=0 eps=1e-5 momentum=0.1 affine=False track_running_stats=False";
constexpr const char* kInplace = "inplace=False";
constexpr const char* kDropout = "p=0.5 inplace=False";
constexpr const char* kMaxPool =
    "kernel_size stride=None padding=0 dilation=1 return_indices=False ceil_mode=False";
constexpr const char* kAvgPool =
    "kernel_size stride=None padding=0 ceil_mode=False count_include_pad=True";
constexpr const char* kAvgPoolNd =
    "kernel_size stride=None padding=0 ceil_mode=False count_include_pad=True "
    "divisor_override=None";

// One row for each layer. The operation is what it comes to; where that is not all (a padding mode,
// statistics that are written), the executor does the rest.
struct Row {
  const char* type;
  const char* parameters;
  const char* operation;
  const char* inputs = "input";
  bool rewritten = false;
};
// clang-format off
constexpr Row kRows[] = {
    {"torch.nn.Identity", "", "identity(input)"},
    {"torch.nn.Linear", "in_features=0 out_features=0 bias=True", "aten.linear.default(input, .weight, .bias?)", "input", true},
    {"torch.nn.Bilinear", "in1_features=0 in2_features=0 out_features=0 bias=True", "aten.bilinear.default(input1, input2, .weight, .bias?)", "input1 input2"},

    {"torch.nn.Conv1d", kConv, "aten.conv1d.default(input, .weight, .bias?, stride, padding, dilation, groups)", "input", true},
    {"torch.nn.Conv2d", kConv, "aten.conv2d.default(input, .weight, .bias?, stride, padding, dilation, groups)", "input", true},
    {"torch.nn.Conv3d", kConv, "aten.conv3d.default(input, .weight, .bias?, stride, padding, dilation, groups)", "input", true},
    {"torch.nn.ConvTranspose1d", kConvTranspose, "aten.conv_transpose1d.default(input, .weight, .bias?, stride, padding, output_padding, groups, dilation)", "input", true},
    {"torch.nn.ConvTranspose2d", kConvTranspose, "aten.conv_transpose2d.input(input, .weight, .bias?, stride, padding, output_padding, groups, dilation)", "input", true},
    {"torch.nn.ConvTranspose3d", kConvTranspose, "aten.conv_transpose3d.input(input, .weight, .bias?, stride, padding, output_padding, groups, dilation)", "input", true},

    {"torch.nn.BatchNorm1d", kBatchNorm, "aten.batch_norm.default(input, .weight?, .bias?, .running_mean?, .running_var?, training, momentum, eps, True)", "input", true},
    {"torch.nn.BatchNorm2d", kBatchNorm, "aten.batch_norm.default(input, .weight?, .bias?, .running_mean?, .running_var?, training, momentum, eps, True)", "input", true},
    {"torch.nn.BatchNorm3d", kBatchNorm, "aten.batch_norm.default(input, .weight?, .bias?, .running_mean?, .running_var?, training, momentum, eps, True)", "input", true},
    {"torch.nn.InstanceNorm1d", kInstanceNorm, "aten.instance_norm.default(input, .weight?, .bias?, .running_mean?, .running_var?, training, momentum, eps, True)"},
    {"torch.nn.InstanceNorm2d", kInstanceNorm, "aten.instance_norm.default(input, .weight?, .bias?, .running_mean?, .running_var?, training, momentum, eps, True)"},
    {"torch.nn.InstanceNorm3d", kInstanceNorm, "aten.instance_norm.default(input, .weight?, .bias?, .running_mean?, .running_var?, training, momentum, eps, True)"},
    {"torch.nn.GroupNorm", "num_groups num_channels=0 eps=1e-5 affine=True", "aten.group_norm.default(input, num_groups, .weight?, .bias?, eps)"},
    {"torch.nn.LayerNorm", "normalized_shape eps=1e-5 elementwise_affine=True bias=True", "aten.layer_norm.default(input, [normalized_shape], .weight?, .bias?, eps)"},
    {"torch.nn.RMSNorm", "normalized_shape eps=None elementwise_affine=True", "aten.rms_norm.default(input, [normalized_shape], .weight?, eps)"},
    {"torch.nn.Embedding", "num_embeddings=0 embedding_dim=0 padding_idx=None max_norm=None norm_type=2.0 scale_grad_by_freq=False sparse=False", "aten.embedding.default(.weight, input)"},

    {"torch.nn.Dropout", kDropout, "aten.dropout.default(input, p, training)"},
    {"torch.nn.Dropout1d", kDropout, "aten.feature_dropout.default(input, p, training)"},
    {"torch.nn.Dropout2d", kDropout, "aten.feature_dropout.default(input, p, training)"},
    {"torch.nn.Dropout3d", kDropout, "aten.feature_dropout.default(input, p, training)"},
    {"torch.nn.AlphaDropout", kDropout, "aten.alpha_dropout.default(input, p, training)"},
    {"torch.nn.FeatureAlphaDropout", kDropout, "aten.feature_alpha_dropout.default(input, p, training)"},

    {"torch.nn.ReLU", kInplace, "aten.relu.default(input)"},
    {"torch.nn.ReLU6", kInplace, "aten.relu6.default(input)"},
    {"torch.nn.GELU", "approximate='none'", "aten.gelu.default(input, approximate)"},
    {"torch.nn.SiLU", kInplace, "aten.silu.default(input)"},
    {"torch.nn.Mish", kInplace, "aten.mish.default(input)"},
    {"torch.nn.ELU", "alpha=1.0 inplace=False", "aten.elu.default(input, alpha)"},
    {"torch.nn.CELU", "alpha=1.0 inplace=False", "aten.celu.default(input, alpha)"},
    {"torch.nn.SELU", kInplace, "aten.selu.default(input)"},
    {"torch.nn.LeakyReLU", "negative_slope=0.01 inplace=False", "aten.leaky_relu.default(input, negative_slope)"},
    {"torch.nn.PReLU", "num_parameters=1 init=0.25", "aten.prelu.default(input, .weight)"},
    {"torch.nn.Hardtanh", "min_val=-1.0 max_val=1.0 inplace=False", "aten.hardtanh.default(input, min_val, max_val)"},
    {"torch.nn.Hardswish", kInplace, "aten.hardswish.default(input)"},
    {"torch.nn.Hardsigmoid", kInplace, "aten.hardsigmoid.default(input)"},
    {"torch.nn.Threshold", "threshold value inplace=False", "aten.threshold.default(input, threshold, value)"},
    {"torch.nn.Softplus", "beta=1.0 threshold=20.0", "aten.softplus.default(input, beta, threshold)"},
    {"torch.nn.Tanh", "", "aten.tanh.default(input)"},
    {"torch.nn.Sigmoid", "", "aten.sigmoid.default(input)"},
    {"torch.nn.LogSigmoid", "", "aten.log_sigmoid.default(input)"},
    {"torch.nn.GLU", "dim=-1", "aten.glu.default(input, dim)"},
    {"torch.nn.Softmax", "dim", "aten.softmax.int(input, dim)"},
    {"torch.nn.LogSoftmax", "dim", "aten.log_softmax.int(input, dim)"},

    {"torch.nn.MaxPool1d", kMaxPool, "aten.max_pool1d.default(input, kernel_size, stride, padding, dilation, ceil_mode)"},
    {"torch.nn.MaxPool2d", kMaxPool, "aten.max_pool2d.default(input, kernel_size, stride, padding, dilation, ceil_mode)"},
    {"torch.nn.MaxPool3d", kMaxPool, "aten.max_pool3d.default(input, kernel_size, stride, padding, dilation, ceil_mode)"},
    {"torch.nn.AvgPool1d", kAvgPool, "aten.avg_pool1d.default(input, kernel_size, stride, padding, ceil_mode, count_include_pad)"},
    {"torch.nn.AvgPool2d", kAvgPoolNd, "aten.avg_pool2d.default(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)"},
    {"torch.nn.AvgPool3d", kAvgPoolNd, "aten.avg_pool3d.default(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)"},
    {"torch.nn.AdaptiveAvgPool1d", "output_size", "aten.adaptive_avg_pool1d.default(input, output_size)"},
    {"torch.nn.AdaptiveAvgPool2d", "output_size", "aten.adaptive_avg_pool2d.default(input, output_size)"},
    {"torch.nn.AdaptiveAvgPool3d", "output_size", "aten.adaptive_avg_pool3d.default(input, output_size)"},

    {"torch.nn.Flatten", "start_dim=1 end_dim=-1", "aten.flatten.using_ints(input, start_dim, end_dim)"},
    {"torch.nn.Unflatten", "dim unflattened_size", "aten.unflatten.int(input, dim, unflattened_size)"},
    {"torch.nn.ZeroPad2d", "padding", "aten.constant_pad_nd.default(input, padding, 0.0)"},
    {"torch.nn.ConstantPad2d", "padding value", "aten.constant_pad_nd.default(input, padding, value)"},
    {"torch.nn.ReflectionPad1d", "padding", "aten.reflection_pad1d.default(input, padding)"},
    {"torch.nn.ReflectionPad2d", "padding", "aten.reflection_pad2d.default(input, padding)"},
    {"torch.nn.ReplicationPad1d", "padding", "aten.replication_pad1d.default(input, padding)"},
    {"torch.nn.ReplicationPad2d", "padding", "aten.replication_pad2d.default(input, padding)"},
    {"torch.nn.Upsample", "size=None scale_factor=None mode='nearest' align_corners=None recompute_scale_factor=None", "interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, False)"},
    {"torch.nn.UpsamplingNearest2d", "size=None scale_factor=None mode='nearest' align_corners=None recompute_scale_factor=None", "interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, False)"},
    {"torch.nn.PixelShuffle", "upscale_factor", "aten.pixel_shuffle.default(input, upscale_factor)"},
    {"torch.nn.PixelUnshuffle", "downscale_factor", "aten.pixel_unshuffle.default(input, downscale_factor)"},
};
// clang-format on

using Layers = std::unordered_map<std::string_view, LayerFacts>;  // by type

const Layers& layers() {
  static const Layers all = [] {
    Layers layers;
    for (const Row& row : kRows) {
      LayerFacts layer{row.type,
                       {},
                       parse_signature(row.parameters),
                       parse_signature(row.inputs),
                       parse_operation(row.operation),
                       {},
                       row.rewritten};
      const Target target = parse_target(layer.operation.target);
      layer.op = target.name;
      layer.schema = find_schema(target);
      layers.emplace(row.type, std::move(layer));
    }
    return layers;
  }();
  return all;
}

}  // namespace

const LayerFacts* find_layer(std::string_view type) {
  std::string short_type;
  if (type.starts_with("torch.nn.modules.")) {
    short_type = "torch.nn." + std::string(type.substr(type.rfind('.') + 1));
    type = short_type;
  }
  const auto it = layers().find(type);
  return it == layers().end() ? nullptr : &it->second;
}

}  // namespace refx::book

namespace refx {

std::vector<std::string> layer_types() {
  std::vector<std::string> types;
  for (const auto& [type, layer] : book::layers()) types.emplace_back(type);
  std::sort(types.begin(), types.end());
  return types;
}

std::vector<std::string> layer_tensors(std::string_view type) {
  std::vector<std::string> tensors;
  const book::LayerFacts* layer = book::find_layer(type);
  if (!layer) return tensors;
  for (const auto& actual : layer->operation.actuals) {
    if (actual.source != book::Operation::Actual::Source::tensor) continue;
    tensors.push_back(actual.name);
    if (actual.name == "running_var") tensors.emplace_back("num_batches_tracked");
  }
  return tensors;
}

bool is_rewritten_layer(std::string_view type) {
  const book::LayerFacts* layer = book::find_layer(type);
  return layer && layer->rewritten;
}

}  // namespace refx
