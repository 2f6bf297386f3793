// SPDX-License-Identifier: Apache-2.0

#include "ops/layer.h"

#include <algorithm>
#include <initializer_list>

namespace refx {

namespace {

bool one_of(std::string_view text, std::initializer_list<std::string_view> options) {
  return std::find(options.begin(), options.end(), text) != options.end();
}

std::optional<Param> module_param(const book::Call& call, const char* name) {
  const StateId state = call.tensor(name);
  return state ? std::optional(Param{state, {}}) : std::nullopt;
}

void match_module(const Model& model, const Node& node, const book::Call& call, Layer& layer) {
  const Module& module = *call.module();
  const NodeId input = call.value("input");
  auto weight = module_param(call, "weight");
  if (!module.custom.empty())
    layer.problem = because<ReasonId::module_is_custom>(module.name, module.custom);
  // Layers are called with one input; what else is passed has no operator.
  else if (!input || node.args.size() + node.kwargs.size() != 1)
    layer.problem = because<ReasonId::module_call_unusual>(module.name);
  else if (!weight)
    layer.problem = because<ReasonId::module_without_weight>(module.name);
  else if (model.graph().num_callers(module.name) > 1)
    layer.problem = because<ReasonId::module_used_elsewhere>(module.name);
  layer.input = input;
  if (weight) layer.weight = *weight;
  layer.bias = module_param(call, "bias");
}

void match_call(const Model& model, const book::Call& call, Layer& layer) {
  layer.input = call.value("input");
  const auto kernel = call.argument("weight"), bias = call.argument("bias");
  const auto weight = param_of(model, kernel ? &*kernel : nullptr);
  const bool has_bias = bias && !bias->is<None>();
  if (has_bias) layer.bias = param_of(model, &*bias);
  if (!layer.input)
    layer.problem = because<ReasonId::input_not_tensor>();
  else if (!weight)
    layer.problem = is_graph_input(model, kernel ? &*kernel : nullptr)
                        ? because<ReasonId::weight_is_input>()
                        : because<ReasonId::weight_is_computed>();
  else if (has_bias && !layer.bias)
    layer.problem = is_graph_input(model, &*bias) ? because<ReasonId::bias_is_input>()
                                                  : because<ReasonId::bias_is_computed>();
  if (weight) layer.weight = *weight;
}

bool writes_elsewhere(const Node& node) {
  const Arg* out = argument(node, node.args.size(), "out");
  return out && !out->is<None>();
}

// What every rewrite of a layer needs: tensors, mostly its own, dense, of one type on one device.
std::optional<Reason> why_not_rewritable(const Model& model, const Layer& layer, Tensors tensors) {
  for (const Param* param : {&layer.weight, layer.bias ? &*layer.bias : nullptr}) {
    if (!param) continue;
    if (tensors == Tensors::own)
      if (auto why = why_shared(model, *param)) return why;
    if (auto why = why_not_dense(model, *param)) return why;
  }
  if (!layer.bias) return std::nullopt;
  const at::TensorBase& weight = model.state().tensor(layer.weight.state);
  const at::TensorBase& bias = model.state().tensor(layer.bias->state);
  if (weight.scalar_type() != bias.scalar_type())
    return because<ReasonId::weight_bias_dtypes_differ>();
  if (weight.device() != bias.device()) return because<ReasonId::weight_bias_devices_differ>();
  return std::nullopt;
}

}  // namespace

Name Layer::path(const Model& model) const {
  if (module) return model.modules()[module].name;
  if (!weight.state) return node_path(model.graph()[node]);
  return owner_path(model.state()[weight.state].name);
}

Layer read_layer(const Model& model, NodeId id, const book::Call& call) {
  Layer layer;
  layer.node = id;
  if (call.spelled() == book::Call::Spelled::module) {
    layer.spelling = Spelling::module;
    layer.module = model.modules().find(call.module()->name);
    match_module(model, model.graph()[id], call, layer);
  } else {
    const bool op = call.spelled() == book::Call::Spelled::op;
    layer.spelling = op ? Spelling::aten : Spelling::functional;
    match_call(model, call, layer);
  }
  return layer;
}

Layer match_layer(const Model& model, NodeId id, const book::Call& call, Tensors tensors) {
  Layer layer = read_layer(model, id, call);
  if (!layer.problem && writes_elsewhere(model.graph()[id]))
    layer.problem = because<ReasonId::writes_given_tensor>();
  if (!layer.problem) layer.problem = why_not_rewritable(model, layer, tensors);
  return layer;
}

Node respelled(const Model& model, const Layer& layer, NodeId input,
               const std::optional<Param>& bias) {
  Node node = model.graph()[layer.node];
  auto set = [&](std::size_t position, std::initializer_list<std::string_view> names,
                 const Arg& value) {
    if (position < node.args.size()) {
      node.args[position] = value;
      return;
    }
    for (auto& [key, old] : node.kwargs)
      if (one_of(key, names)) {
        old = value;
        return;
      }
    if (value.is<None>()) return;
    if (position == node.args.size())
      node.args.push_back(value);
    else
      node.kwargs.emplace_back(std::string(*names.begin()), value);
  };
  set(0, {"input", "self"}, input);
  // A layer's weight and bias are no arguments.
  if (layer.spelling == Spelling::module) return node;
  set(1, {"weight"}, layer.weight.node);
  set(2, {"bias"}, bias ? Arg(bias->node) : Arg(None{}));
  // Defaults are left out, as torch.export does.
  while (node.args.size() == 3 && node.args.back().is<None>()) node.args.pop_back();
  std::erase_if(node.kwargs, [](const auto& kwarg) {
    return kwarg.first == "bias" && kwarg.second.template is<None>();
  });
  return node;
}

void set_module_parameter(Editor& editor, ModuleId id, const std::string& name, Arg value) {
  Module module = editor.modules()[id];
  auto it = std::find_if(module.parameters.begin(), module.parameters.end(),
                         [&](const auto& parameter) { return parameter.first == name; });
  if (it == module.parameters.end())
    module.parameters.emplace_back(name, std::move(value));
  else if (it->second == value)
    return;
  else
    it->second = std::move(value);
  editor.set_module(id, std::move(module));
}

namespace {

// The operator also takes a vector as weight, and a bias that it broadcasts.
std::optional<Reason> why_not_linear(const Model& model, const Layer& layer) {
  const at::TensorBase& weight = model.state().tensor(layer.weight.state);
  if (weight.dim() != 2) return because<ReasonId::weight_not_matrix>();
  if (!layer.bias) return std::nullopt;
  const at::TensorBase& bias = model.state().tensor(layer.bias->state);
  const bool fits = bias.dim() == 1 && bias.size(0) == weight.size(0);
  if (!fits) return because<ReasonId::bias_does_not_fit>();
  return std::nullopt;
}

}  // namespace

namespace {

// The method that torch's Tensor has not: a call of one is somebody else's.
bool is_linear(const book::Call& call) {
  return call.is("linear") && call.spelled() != book::Call::Spelled::method;
}

}  // namespace

NodeId LinearOp::input_of(const Model& model, NodeId id) {
  const book::Call call(model, model.graph()[id]);
  return is_linear(call) ? call.value("input") : NodeId{};
}

std::optional<LinearOp> LinearOp::match(const Model& model, NodeId id, Tensors tensors) {
  const book::Call call(model, model.graph()[id]);
  if (!is_linear(call)) return std::nullopt;
  LinearOp linear{match_layer(model, id, call, tensors)};
  if (!linear.problem) linear.problem = why_not_linear(model, linear);
  return linear;
}

LinearOp LinearOp::at(const Model& model, NodeId id) {
  return {read_layer(model, id, book::Call(model, model.graph()[id]))};
}

NodeId LinearOp::create(Editor& editor, NodeId where, const std::string& path,
                        const at::Tensor& new_weight, const at::Tensor& new_bias,
                        Param& weight_place, std::optional<Param>& bias_place) const {
  weight_place = add_param(editor, weight, path + ".weight", new_weight, where);
  if (new_bias.defined())
    bias_place = add_param(editor, weight_place, path + ".bias", new_bias, where);
  const Node& old = editor.graph()[node];
  Node created{.op = old.op, .target = old.target, .args = {input}, .meta = old.meta};
  created.type = with_last_dim(old.type, new_weight.size(0));
  if (spelling == Spelling::module) {
    Module layer = editor.modules()[module];
    layer.name = created.target = path;
    layer.parameters = {{"in_features", new_weight.size(1)},
                        {"out_features", new_weight.size(0)},
                        {"bias", new_bias.defined()}};
    editor.add_module(std::move(layer), module);
  } else {
    created.args.emplace_back(weight_place.node);
    if (bias_place) created.args.emplace_back(bias_place->node);
  }
  return editor.insert_before(where, std::move(created));
}

namespace {

// "conv2d", "conv_transpose3d": 2, 3. 0 for the general "convolution" and for other operators.
int dims_by_name(const book::Call& call) {
  static constexpr std::string_view kNames[][2] = {{"conv1d", "conv_transpose1d"},
                                                   {"conv2d", "conv_transpose2d"},
                                                   {"conv3d", "conv_transpose3d"}};
  for (int dims = 1; dims <= 3; ++dims)
    for (std::string_view name : kNames[dims - 1])
      if (call.is(name)) return dims;
  return 0;
}

}  // namespace

std::optional<ConvOp> ConvOp::match(const Model& model, NodeId id) {
  const book::Call call(model, model.graph()[id]);
  const int by_name = dims_by_name(call);
  const bool known = by_name > 0 || call.is("convolution");
  if (!known || call.spelled() == book::Call::Spelled::method) return std::nullopt;
  ConvOp conv{match_layer(model, id, call, Tensors::maybe_shared)};
  const auto transposed = call.argument("transposed");
  conv.transposed = call.name().starts_with("conv_transpose") || transposed == Arg(true);
  if (const auto groups = call.argument("groups"); groups && groups->get<std::int64_t>())
    conv.groups = *groups->get<std::int64_t>();
  // The general operator has as many dimensions as its weight.
  const int of_weight =
      conv.weight.state ? static_cast<int>(model.state().tensor(conv.weight.state).dim()) - 2 : 2;
  conv.dims = by_name > 0 ? by_name : of_weight;
  if (!conv.problem && conv.dims != of_weight)
    conv.problem = because<ReasonId::weight_dimensions>();
  return conv;
}

}  // namespace refx
