// SPDX-License-Identifier: Apache-2.0

// Leaf modules of torch.nn. The book says what operator a layer is; here is what some of them do
// besides.

#include <ATen/core/Tensor.h>

#include <map>

#include "book/layers.h"
#include "exec/lowering.h"
#include "exec/resize.h"
#include "refx/error.h"
#include "refx/layers.h"
#include "util/did_you_mean.h"

namespace refx::exec {
namespace {

struct LayerCall {
  const book::LayerFacts& layer;
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
    return o.kind == OperandKind::boolean && o.constant.toBool();
  }
  std::string text(std::string_view name) const {
    const Operand& o = (*this)[name];
    return o.kind == OperandKind::string ? o.constant.toStringRef() : "";
  }
};
using Lower = Operand (*)(const LayerCall&);

// A hyper-parameter as one number per dimension.
std::vector<std::int64_t> ints(const Operand& o, std::size_t n) {
  if (o.kind == OperandKind::integer) return std::vector<std::int64_t>(n, o.constant.toInt());
  std::vector<std::int64_t> out;
  for (const Operand& item : o.items) {
    if (item.kind != OperandKind::integer) throw Error("a hyper-parameter expects integers");
    out.push_back(item.constant.toInt());
  }
  if (out.size() == 1) out.resize(n, out[0]);
  if (out.size() != n) throw Error("a hyper-parameter expects " + std::to_string(n) + " numbers");
  return out;
}

Operand list(const std::vector<std::int64_t>& values) {
  std::vector<Operand> items(values.begin(), values.end());
  return Operand::nest(Operand::Form::list, std::move(items));
}

// Padding on both sides, last dimension first, as torch.nn.functional.pad takes it.
Operand both_sides(const LayerCall& l, const at::TensorBase& weight) {
  if (weight.dim() < 3) throw Error("the weight of a convolution has three dimensions or more");
  auto dims = static_cast<std::size_t>(weight.dim() - 2);
  std::string word = l.text("padding");
  auto dilation = ints(l["dilation"], dims);
  std::vector<std::int64_t> pad;
  for (std::size_t d = dims; d-- > 0;) {
    std::int64_t total = 0;
    if (__builtin_mul_overflow(dilation[d], weight.size(static_cast<std::int64_t>(d) + 2) - 1,
                               &total))
      throw Error("the dilation of a convolution is too large");
    // Of an odd total, the extra element is on the right, as in torch.nn.
    std::int64_t left = word == "same"    ? total / 2
                        : word == "valid" ? 0
                                          : ints(l["padding"], dims)[d];
    pad.push_back(left);
    pad.push_back(word == "same" ? total - left : left);
  }
  return list(pad);
}

Operand conv(const LayerCall& l) {
  Operand x = l["input"], padding = l["padding"];
  Operand weight = l.tensor("weight");
  if (l.text("padding_mode") != "zeros") {
    const auto& tensor =
        l.out.model().state()[l.out.model().state().find(l.module.name + ".weight")].tensor;
    x = l.out.call("aten.pad.default", {x, both_sides(l, tensor), l["padding_mode"]});
    // The input is padded already.
    padding = Operand(0);
  }
  // padding="same" and padding="valid" are an overload of their own.
  const char* overload = padding.kind == OperandKind::string ? ".padding" : ".default";
  return l.out.call(
      "aten." + l.layer.op + overload,
      {x, weight, l.tensor_or_none("bias"), l["stride"], padding, l["dilation"], l["groups"]});
}

Operand plainly(const LayerCall& l) {
  return lower(l.out, l.layer.operation, l.names, l.module.name);
}

Operand conv_transpose(const LayerCall& l) {
  if (l.text("padding_mode") != "zeros") throw Error("transposed convolutions pad with zeros only");
  return plainly(l);
}

c10::IValue cumulative_average_factor(const NativeCall& call) {
  return 1.0 / call.tensor(0).item().toDouble();
}

Operand batch_norm(const LayerCall& l) {
  Operand mean = l.tensor_or_none("running_mean"), variance = l.tensor_or_none("running_var");
  bool tracks = l.flag("track_running_stats");
  // momentum=None means the average of all batches: 1 / number of batches.
  Operand momentum = l["momentum"].is_none() ? Operand(0.0) : l["momentum"];
  if (l.module.training && tracks && l.out.has_state(l.module.name + ".num_batches_tracked")) {
    Operand count = l.tensor("num_batches_tracked");
    // torch.nn counts before it takes the average, so that the first factor is 1.
    l.out.call("aten.add_.Tensor", {count, 1});
    if (l["momentum"].is_none()) momentum = l.out.call_native(cumulative_average_factor, {count});
  }
  // As torch.nn.BatchNorm decides it: in training mode, or without stored statistics.
  bool batch_statistics = l.module.training || (mean.is_none() && variance.is_none());
  if (l.module.training && !tracks) mean = variance = Operand();
  return l.out.call("aten.batch_norm.default",
                    {l["input"], l.tensor_or_none("weight"), l.tensor_or_none("bias"), mean,
                     variance, batch_statistics, momentum, l["eps"], true});
}

Operand instance_norm(const LayerCall& l) {
  bool batch_statistics = l.module.training || !l.flag("track_running_stats");
  return l.out.call("aten.instance_norm.default",
                    {l["input"], l.tensor_or_none("weight"), l.tensor_or_none("bias"),
                     l.tensor_or_none("running_mean"), l.tensor_or_none("running_var"),
                     batch_statistics, l["momentum"], l["eps"], true});
}

Operand embedding(const LayerCall& l) {
  // torch renormalizes the rows of the weight in place, and the executor shares weights with the
  // model.
  if (!l["max_norm"].is_none())
    throw Error("an Embedding with max_norm changes its weight; it cannot run");
  return plainly(l);
}

// None in output_size keeps the input's size there.
Operand adaptive_pool(const LayerCall& l, std::size_t dims) {
  Operand size = l["output_size"];
  if (!size.is_sequence())
    size = Operand::nest(Operand::Form::list, std::vector<Operand>(dims, size));
  for (std::size_t i = 0; i < size.items.size(); ++i) {
    if (!size.items[i].is_none()) continue;
    // From the end, because the input may have a batch dimension or none.
    auto at = static_cast<std::int64_t>(i) - static_cast<std::int64_t>(size.items.size());
    size.items[i] = l.out.call("aten.sym_size.int", {l["input"], at});
  }
  return l.out.call(l.layer.operation.target, {l["input"], size});
}

Operand constant_pad(const LayerCall& l) {
  const Operand* value = find_named(l.names, "value");
  return l.out.call(l.layer.operation.target,
                    {l["input"], list(ints(l["padding"], 4)), value ? *value : Operand(0.0)});
}

Operand upsample(const LayerCall& l) {
  return l.out.call_native(interpolate, {l["input"], l["size"], l["scale_factor"], l["mode"],
                                         l["align_corners"], l["recompute_scale_factor"], false});
}

const std::map<std::string_view, Lower>& special_lowerings() {
  static const std::map<std::string_view, Lower> all = {
      {"identity", [](const LayerCall& l) { return l["input"]; }},
      {"conv1d", conv},
      {"conv2d", conv},
      {"conv3d", conv},
      {"conv_transpose1d", conv_transpose},
      {"conv_transpose2d", conv_transpose},
      {"conv_transpose3d", conv_transpose},
      {"batch_norm", batch_norm},
      {"instance_norm", instance_norm},
      {"embedding", embedding},
      {"adaptive_avg_pool1d", [](const LayerCall& l) { return adaptive_pool(l, 1); }},
      {"adaptive_avg_pool2d", [](const LayerCall& l) { return adaptive_pool(l, 2); }},
      {"adaptive_avg_pool3d", [](const LayerCall& l) { return adaptive_pool(l, 3); }},
      {"constant_pad_nd", constant_pad},
      {"interpolate", upsample},
  };
  return all;
}

// The hyper-parameters the book knows; the others (device, dtype) do not matter for running.
NamedOperands hyper_parameters(const book::LayerFacts& layer, const Module& module) {
  NamedOperands known;
  for (const auto& [name, value] : module.parameters)
    for (const book::Signature::Formal& formal : layer.parameters.formals)
      if (formal.name == name) known.emplace_back(name, Compiler::constant(value));
  return bind_signature(layer.parameters, {}, known);
}

}  // namespace

Operand lower_layer(Compiler& out, const Module& module, const std::vector<Operand>& args,
                    const NamedOperands& kwargs) {
  if (!module.custom.empty()) {
    throw Error("module '" + module.name + "' is more than its type says (" + module.custom +
                "); it cannot run");
  }
  const book::LayerFacts* layer = book::find_layer(module.type);
  if (!layer) {
    throw Error("the executor does not know module type '" + module.type + "'" +
                did_you_mean(module.type, layer_types()) +
                "; trace into it, or export the model with torch.export");
  }
  LayerCall call{*layer, out, module, bind_signature(layer->inputs, args, kwargs)};
  for (auto& named : hyper_parameters(*layer, module)) call.names.push_back(std::move(named));
  call.names.emplace_back("training", Operand(module.training));
  const Operand* indices = find_named(call.names, "return_indices");
  if (indices && call.flag("return_indices")) throw Error("return_indices=True is not supported");
  const auto special = special_lowerings().find(layer->op);
  return special == special_lowerings().end() ? plainly(call) : special->second(call);
}

}  // namespace refx::exec
