// The leaf modules of torch.nn that the executor knows. Hyper-parameters have torch.nn's names and
// defaults; tensors are the state entries under the module's path.

#include <ATen/core/Tensor.h>

#include <map>

#include "exec/lowering.h"
#include "exec/resize.h"
#include "refx/error.h"
#include "util/did_you_mean.h"

namespace refx::exec {
namespace {

struct Layer {
  Compiler& out;
  const Module& module;
  NamedOperands names;  // inputs, hyper-parameters, training

  const Operand& operator[](std::string_view name) const { return *find_named(names, name); }
  Operand tensor(std::string_view name) const {
    return out.state(module.name + "." + std::string(name));
  }
  Operand tensor_or_none(std::string_view name) const {
    std::string full = module.name + "." + std::string(name);
    return out.has_state(full) ? out.state(full) : Operand();
  }
  bool flag(std::string_view name) const {
    const Operand& o = (*this)[name];
    return o.kind == Kind::boolean && o.constant.toBool();
  }
  std::string text(std::string_view name) const {
    const Operand& o = (*this)[name];
    return o.kind == Kind::string ? o.constant.toStringRef() : "";
  }
};
using Lower = Operand (*)(const Layer&);

// A hyper-parameter as one number per dimension.
std::vector<std::int64_t> ints(const Operand& o, std::size_t n) {
  if (o.kind == Kind::integer) return std::vector<std::int64_t>(n, o.constant.toInt());
  std::vector<std::int64_t> out;
  for (const Operand& item : o.items) out.push_back(item.constant.toInt());
  if (out.size() == 1) out.resize(n, out[0]);
  if (out.size() != n) throw Error("a hyper-parameter wants " + std::to_string(n) + " numbers");
  return out;
}

Operand list(const std::vector<std::int64_t>& values) {
  std::vector<Operand> items(values.begin(), values.end());
  return Operand::nest(Operand::Form::list, std::move(items));
}

// Padding on both sides, last dimension first, as torch.nn.functional.pad takes it.
Operand both_sides(const Layer& l, const at::TensorBase& weight) {
  auto dims = static_cast<std::size_t>(weight.dim() - 2);
  std::string word = l.text("padding");
  auto dilation = ints(l["dilation"], dims);
  std::vector<std::int64_t> pad;
  for (std::size_t d = dims; d-- > 0;) {
    std::int64_t total = dilation[d] * (weight.size(static_cast<std::int64_t>(d) + 2) - 1);
    std::int64_t left = word == "same"    ? total / 2
                        : word == "valid" ? 0
                                          : ints(l["padding"], dims)[d];
    pad.push_back(left);
    pad.push_back(word == "same" ? total - left : left);
  }
  return list(pad);
}

Operand conv(const Layer& l, const std::string& op) {
  Operand x = l["input"], padding = l["padding"];
  Operand weight = l.tensor("weight");
  if (l.text("padding_mode") != "zeros") {
    const auto& tensor =
        l.out.model().state()[l.out.model().state().find(l.module.name + ".weight")].tensor;
    x = l.out.call("aten.pad.default", {x, both_sides(l, tensor), l["padding_mode"]});
    padding = Operand(0);
  }
  const char* overload = padding.kind == Kind::string ? ".padding" : ".default";
  return l.out.call("aten." + op + overload, {x, weight, l.tensor_or_none("bias"), l["stride"],
                                              padding, l["dilation"], l["groups"]});
}

Operand conv_transpose(const Layer& l, const std::string& op) {
  if (l.text("padding_mode") != "zeros") throw Error("transposed convolutions pad with zeros only");
  return l.out.call("aten." + op,
                    {l["input"], l.tensor("weight"), l.tensor_or_none("bias"), l["stride"],
                     l["padding"], l["output_padding"], l["groups"], l["dilation"]});
}

c10::IValue cumulative_average_factor(const Call& call) {
  return 1.0 / call.tensor(0).item().toDouble();
}

Operand batch_norm(const Layer& l) {
  Operand mean = l.tensor_or_none("running_mean"), variance = l.tensor_or_none("running_var");
  bool tracks = l.flag("track_running_stats");
  Operand momentum = l["momentum"].is_none() ? Operand(0.0) : l["momentum"];
  if (l.module.training && tracks && l.out.has_state(l.module.name + ".num_batches_tracked")) {
    Operand count = l.tensor("num_batches_tracked");
    l.out.call("aten.add_.Tensor", {count, 1});
    if (l["momentum"].is_none()) momentum = l.out.call_native(cumulative_average_factor, {count});
  }
  bool batch_statistics = l.module.training || (mean.is_none() && variance.is_none());
  if (l.module.training && !tracks) mean = variance = Operand();
  return l.out.call("aten.batch_norm.default",
                    {l["input"], l.tensor_or_none("weight"), l.tensor_or_none("bias"), mean,
                     variance, batch_statistics, momentum, l["eps"], true});
}

Operand instance_norm(const Layer& l) {
  bool batch_statistics = l.module.training || !l.flag("track_running_stats");
  return l.out.call("aten.instance_norm.default",
                    {l["input"], l.tensor_or_none("weight"), l.tensor_or_none("bias"),
                     l.tensor_or_none("running_mean"), l.tensor_or_none("running_var"),
                     batch_statistics, l["momentum"], l["eps"], true});
}

Operand embedding(const Layer& l) {
  if (!l["max_norm"].is_none())
    throw Error("an Embedding with max_norm changes its weight; it cannot run");
  return l.out.call("aten.embedding.default", {l.tensor("weight"), l["input"]});
}

// None in output_size keeps the input's size there.
Operand adaptive_size(const Layer& l, std::size_t dims) {
  Operand size = l["output_size"];
  if (!size.is_sequence())
    size = Operand::nest(Operand::Form::list, std::vector<Operand>(dims, size));
  for (std::size_t i = 0; i < size.items.size(); ++i) {
    if (!size.items[i].is_none()) continue;
    auto at = static_cast<std::int64_t>(i) - static_cast<std::int64_t>(size.items.size());
    size.items[i] = l.out.call("aten.sym_size.int", {l["input"], at});
  }
  return size;
}

Operand upsample(const Layer& l) {
  return l.out.call_native(interpolate, {l["input"], l["size"], l["scale_factor"], l["mode"],
                                         l["align_corners"], l["recompute_scale_factor"], false});
}

struct Row {
  const char* signature;       // hyper-parameters
  const char* call = nullptr;  // the operator, or …
  Lower lower = nullptr;       // … what emits more than one
  const char* inputs = "input";
};

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

const std::map<std::string, Row, std::less<>>& rows() {
  static const std::map<std::string, Row, std::less<>> all = {
      {"torch.nn.Identity", {"", nullptr, [](const Layer& l) { return l["input"]; }}},
      {"torch.nn.Linear",
       {"in_features=0 out_features=0 bias=True", "aten.linear.default(input, .weight, .bias?)"}},
      {"torch.nn.Bilinear",
       {"in1_features=0 in2_features=0 out_features=0 bias=True",
        "aten.bilinear.default(input1, input2, .weight, .bias?)", nullptr, "input1 input2"}},

      {"torch.nn.Conv1d", {kConv, nullptr, [](const Layer& l) { return conv(l, "conv1d"); }}},
      {"torch.nn.Conv2d", {kConv, nullptr, [](const Layer& l) { return conv(l, "conv2d"); }}},
      {"torch.nn.Conv3d", {kConv, nullptr, [](const Layer& l) { return conv(l, "conv3d"); }}},
      {"torch.nn.ConvTranspose1d",
       {kConvTranspose, nullptr,
        [](const Layer& l) { return conv_transpose(l, "conv_transpose1d.default"); }}},
      {"torch.nn.ConvTranspose2d",
       {kConvTranspose, nullptr,
        [](const Layer& l) { return conv_transpose(l, "conv_transpose2d.input"); }}},
      {"torch.nn.ConvTranspose3d",
       {kConvTranspose, nullptr,
        [](const Layer& l) { return conv_transpose(l, "conv_transpose3d.input"); }}},

      {"torch.nn.BatchNorm1d", {kBatchNorm, nullptr, batch_norm}},
      {"torch.nn.BatchNorm2d", {kBatchNorm, nullptr, batch_norm}},
      {"torch.nn.BatchNorm3d", {kBatchNorm, nullptr, batch_norm}},
      {"torch.nn.InstanceNorm1d", {kInstanceNorm, nullptr, instance_norm}},
      {"torch.nn.InstanceNorm2d", {kInstanceNorm, nullptr, instance_norm}},
      {"torch.nn.InstanceNorm3d", {kInstanceNorm, nullptr, instance_norm}},
      {"torch.nn.GroupNorm",
       {"num_groups num_channels=0 eps=1e-5 affine=True",
        "aten.group_norm.default(input, num_groups, .weight?, .bias?, eps)"}},
      {"torch.nn.LayerNorm",
       {"normalized_shape eps=1e-5 elementwise_affine=True bias=True",
        "aten.layer_norm.default(input, [normalized_shape], .weight?, .bias?, eps)"}},
      {"torch.nn.RMSNorm",
       {"normalized_shape eps=None elementwise_affine=True",
        "aten.rms_norm.default(input, [normalized_shape], .weight?, eps)"}},
      {"torch.nn.Embedding",
       {"num_embeddings=0 embedding_dim=0 padding_idx=None max_norm=None norm_type=2.0 "
        "scale_grad_by_freq=False sparse=False",
        nullptr, embedding}},

      {"torch.nn.Dropout", {kDropout, "aten.dropout.default(input, p, training)"}},
      {"torch.nn.Dropout1d", {kDropout, "aten.feature_dropout.default(input, p, training)"}},
      {"torch.nn.Dropout2d", {kDropout, "aten.feature_dropout.default(input, p, training)"}},
      {"torch.nn.Dropout3d", {kDropout, "aten.feature_dropout.default(input, p, training)"}},
      {"torch.nn.AlphaDropout", {kDropout, "aten.alpha_dropout.default(input, p, training)"}},
      {"torch.nn.FeatureAlphaDropout",
       {kDropout, "aten.feature_alpha_dropout.default(input, p, training)"}},

      {"torch.nn.ReLU", {kInplace, "aten.relu.default(input)"}},
      {"torch.nn.ReLU6", {kInplace, "aten.relu6.default(input)"}},
      {"torch.nn.GELU", {"approximate='none'", "aten.gelu.default(input, approximate)"}},
      {"torch.nn.SiLU", {kInplace, "aten.silu.default(input)"}},
      {"torch.nn.Mish", {kInplace, "aten.mish.default(input)"}},
      {"torch.nn.ELU", {"alpha=1.0 inplace=False", "aten.elu.default(input, alpha)"}},
      {"torch.nn.CELU", {"alpha=1.0 inplace=False", "aten.celu.default(input, alpha)"}},
      {"torch.nn.SELU", {kInplace, "aten.selu.default(input)"}},
      {"torch.nn.LeakyReLU",
       {"negative_slope=0.01 inplace=False", "aten.leaky_relu.default(input, negative_slope)"}},
      {"torch.nn.PReLU", {"num_parameters=1 init=0.25", "aten.prelu.default(input, .weight)"}},
      {"torch.nn.Hardtanh",
       {"min_val=-1.0 max_val=1.0 inplace=False",
        "aten.hardtanh.default(input, min_val, max_val)"}},
      {"torch.nn.Hardswish", {kInplace, "aten.hardswish.default(input)"}},
      {"torch.nn.Hardsigmoid", {kInplace, "aten.hardsigmoid.default(input)"}},
      {"torch.nn.Threshold",
       {"threshold value inplace=False", "aten.threshold.default(input, threshold, value)"}},
      {"torch.nn.Softplus",
       {"beta=1.0 threshold=20.0", "aten.softplus.default(input, beta, threshold)"}},
      {"torch.nn.Tanh", {"", "aten.tanh.default(input)"}},
      {"torch.nn.Sigmoid", {"", "aten.sigmoid.default(input)"}},
      {"torch.nn.LogSigmoid", {"", "aten.log_sigmoid.default(input)"}},
      {"torch.nn.GLU", {"dim=-1", "aten.glu.default(input, dim)"}},
      {"torch.nn.Softmax", {"dim", "aten.softmax.int(input, dim)"}},
      {"torch.nn.LogSoftmax", {"dim", "aten.log_softmax.int(input, dim)"}},

      {"torch.nn.MaxPool1d",
       {kMaxPool,
        "aten.max_pool1d.default(input, kernel_size, stride, padding, dilation, ceil_mode)"}},
      {"torch.nn.MaxPool2d",
       {kMaxPool,
        "aten.max_pool2d.default(input, kernel_size, stride, padding, dilation, ceil_mode)"}},
      {"torch.nn.MaxPool3d",
       {kMaxPool,
        "aten.max_pool3d.default(input, kernel_size, stride, padding, dilation, ceil_mode)"}},
      {"torch.nn.AvgPool1d",
       {kAvgPool,
        "aten.avg_pool1d.default(input, kernel_size, stride, padding, ceil_mode, "
        "count_include_pad)"}},
      {"torch.nn.AvgPool2d",
       {kAvgPoolNd,
        "aten.avg_pool2d.default(input, kernel_size, stride, padding, ceil_mode, "
        "count_include_pad, divisor_override)"}},
      {"torch.nn.AvgPool3d",
       {kAvgPoolNd,
        "aten.avg_pool3d.default(input, kernel_size, stride, padding, ceil_mode, "
        "count_include_pad, divisor_override)"}},
      {"torch.nn.AdaptiveAvgPool1d",
       {"output_size", nullptr,
        [](const Layer& l) {
          return l.out.call("aten.adaptive_avg_pool1d.default", {l["input"], adaptive_size(l, 1)});
        }}},
      {"torch.nn.AdaptiveAvgPool2d",
       {"output_size", nullptr,
        [](const Layer& l) {
          return l.out.call("aten.adaptive_avg_pool2d.default", {l["input"], adaptive_size(l, 2)});
        }}},
      {"torch.nn.AdaptiveAvgPool3d",
       {"output_size", nullptr,
        [](const Layer& l) {
          return l.out.call("aten.adaptive_avg_pool3d.default", {l["input"], adaptive_size(l, 3)});
        }}},

      {"torch.nn.Flatten",
       {"start_dim=1 end_dim=-1", "aten.flatten.using_ints(input, start_dim, end_dim)"}},
      {"torch.nn.Unflatten",
       {"dim unflattened_size", "aten.unflatten.int(input, dim, unflattened_size)"}},
      {"torch.nn.ZeroPad2d",
       {"padding", nullptr,
        [](const Layer& l) {
          return l.out.call("aten.constant_pad_nd.default",
                            {l["input"], list(ints(l["padding"], 4)), 0.0});
        }}},
      {"torch.nn.ConstantPad2d",
       {"padding value", nullptr,
        [](const Layer& l) {
          return l.out.call("aten.constant_pad_nd.default",
                            {l["input"], list(ints(l["padding"], 4)), l["value"]});
        }}},
      {"torch.nn.ReflectionPad1d", {"padding", "aten.reflection_pad1d.default(input, padding)"}},
      {"torch.nn.ReflectionPad2d", {"padding", "aten.reflection_pad2d.default(input, padding)"}},
      {"torch.nn.ReplicationPad1d", {"padding", "aten.replication_pad1d.default(input, padding)"}},
      {"torch.nn.ReplicationPad2d", {"padding", "aten.replication_pad2d.default(input, padding)"}},
      {"torch.nn.Upsample",
       {"size=None scale_factor=None mode='nearest' align_corners=None recompute_scale_factor=None",
        nullptr, upsample}},
      {"torch.nn.UpsamplingNearest2d",
       {"size=None scale_factor=None mode='nearest' align_corners=None recompute_scale_factor=None",
        nullptr, upsample}},
      {"torch.nn.PixelShuffle",
       {"upscale_factor", "aten.pixel_shuffle.default(input, upscale_factor)"}},
      {"torch.nn.PixelUnshuffle",
       {"downscale_factor", "aten.pixel_unshuffle.default(input, downscale_factor)"}},
  };
  return all;
}

// The hyper-parameters the row knows; the others (device, dtype) do not matter for running.
NamedOperands hyper_parameters(const Row& row, const Module& module, const Compiler& out) {
  NamedOperands known;
  std::string padded = " " + std::string(row.signature) + " ";
  for (const auto& [name, value] : module.parameters) {
    bool listed = padded.find(" " + name + " ") != std::string::npos ||
                  padded.find(" " + name + "=") != std::string::npos;
    if (listed) known.emplace_back(name, out.constant(value));
  }
  return bind_signature(row.signature, {}, known);
}

std::string short_name(std::string type) {
  constexpr std::string_view kModules = "torch.nn.modules.";
  if (type.rfind(kModules, 0) == 0) type = "torch.nn." + type.substr(type.rfind('.') + 1);
  return type;
}

}  // namespace

std::vector<std::string> known_layers() {
  std::vector<std::string> names;
  for (const auto& [name, row] : rows()) names.push_back(name);
  return names;
}

Operand lower_layer(Compiler& out, const Module& module, const std::vector<Operand>& args,
                    const NamedOperands& kwargs) {
  if (!module.custom.empty()) {
    throw Error("module '" + module.name + "' is more than its type says (" + module.custom +
                "); it cannot run");
  }
  auto it = rows().find(short_name(module.type));
  if (it == rows().end()) {
    throw Error("the executor does not know module type '" + module.type + "'" +
                did_you_mean(module.type, known_layers()) +
                "; trace into it, or export the model with torch.export");
  }
  const Row& row = it->second;
  Layer layer{out, module, bind_signature(row.inputs, args, kwargs)};
  for (auto& named : hyper_parameters(row, module, out)) layer.names.push_back(std::move(named));
  layer.names.emplace_back("training", Operand(module.training));
  const Operand* indices = find_named(layer.names, "return_indices");
  if (indices && layer.flag("return_indices")) throw Error("return_indices=True is not supported");
  return row.lower ? row.lower(layer) : lower(out, row.call, layer.names, module.name);
}

}  // namespace refx::exec
