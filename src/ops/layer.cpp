#include "ops/layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace refx {

namespace {

bool one_of(std::string_view text, std::initializer_list<std::string_view> options) {
  return std::find(options.begin(), options.end(), text) != options.end();
}

std::optional<Param> module_param(const Model& model, const Module& module, const char* name) {
  const StateId state = model.state().find(module.name + "." + name);
  if (!state) return std::nullopt;
  return Param{state, {}};
}

void match_module(const Model& model, const Node& node, Layer& layer) {
  const Module& module = model.modules()[layer.module];
  const Arg* first = argument(node, 0, "input");
  const NodeId* input = first ? first->get<NodeId>() : nullptr;
  auto weight = module_param(model, module, "weight");
  if (!module.custom.empty())
    layer.problem = fmt::format("module '{}' {}", module.name, module.custom);
  else if (!input || node.args.size() + node.kwargs.size() != 1)
    layer.problem = fmt::format("module '{}' is not called with one tensor", module.name);
  else if (!weight)
    layer.problem = fmt::format("module '{}' has no weight of its own", module.name);
  else if (model.graph().num_callers(module.name) > 1)
    layer.problem = fmt::format("module '{}' is used in more than one place", module.name);
  if (input) layer.input = *input;
  if (weight) layer.weight = *weight;
  layer.bias = module_param(model, module, "bias");
}

void match_call(const Model& model, const Node& node, Layer& layer) {
  const Arg* input = argument(node, 0, "input");
  if (!input) input = argument(node, 0, "self");
  const Arg* kernel = argument(node, 1, "weight");
  const auto weight = param_of(model, kernel);
  const Arg* bias = argument(node, 2, "bias");
  if (bias && !bias->is<None>()) layer.bias = param_of(model, bias);
  if (!input || !input->is<NodeId>())
    layer.problem = "its input is not a tensor of the graph";
  else if (!weight)
    layer.problem = fmt::format("its weight {}", why_not_stored(model, kernel));
  else if (bias && !bias->is<None>() && !layer.bias)
    layer.problem = fmt::format("its bias {}", why_not_stored(model, bias));
  if (input && input->is<NodeId>()) layer.input = *input->get<NodeId>();
  if (weight) layer.weight = *weight;
}

// What every rewrite of a layer needs: tensors of its own, dense, of one type on one device.
std::string why_not_rewritable(const Model& model, const Layer& layer) {
  for (const Param* param : {&layer.weight, layer.bias ? &*layer.bias : nullptr}) {
    if (!param) continue;
    if (std::string why = why_shared(model, *param); !why.empty()) return why;
    if (std::string why = why_not_dense(model, *param); !why.empty()) return why;
  }
  if (!layer.bias) return "";
  const at::TensorBase& weight = model.state().tensor(layer.weight.state);
  const at::TensorBase& bias = model.state().tensor(layer.bias->state);
  if (weight.scalar_type() != bias.scalar_type()) return "weight and bias have different dtypes";
  if (weight.device() != bias.device()) return "weight and bias are on different devices";
  return "";
}

}  // namespace

std::string Layer::path(const Model& model) const {
  if (module) return model.modules()[module].name;
  if (!weight.state) return place_name(model.graph()[node]);
  return owner_path(model.state()[weight.state].name);
}

std::optional<Layer> match_layer(const Model& model, NodeId id, bool is_call, ModuleId module) {
  const Node& node = model.graph()[id];
  Layer layer;
  layer.node = id;
  if (module) {
    layer.spelling = Spelling::module;
    layer.module = module;
    match_module(model, node, layer);
  } else if (is_call) {
    layer.spelling = node.target.starts_with("torch.") && !node.target.starts_with("torch.ops.")
                         ? Spelling::functional
                         : Spelling::aten;
    match_call(model, node, layer);
  } else {
    return std::nullopt;
  }
  if (layer.problem.empty()) layer.problem = why_not_rewritable(model, layer);
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
  if (layer.spelling == Spelling::module) return node;
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
std::string why_not_linear(const Model& model, const Layer& layer) {
  const at::TensorBase& weight = model.state().tensor(layer.weight.state);
  if (weight.dim() != 2) return "its weight is not a matrix";
  if (!layer.bias) return "";
  const at::TensorBase& bias = model.state().tensor(layer.bias->state);
  const bool fits = bias.dim() == 1 && bias.size(0) == weight.size(0);
  return fits ? "" : "its bias does not fit its weight";
}

}  // namespace

namespace {

bool is_linear_call(const Node& node) {
  return node.op == Opcode::call_function &&
         one_of(node.target, {"aten.linear.default", "torch.nn.functional.linear",
                              "torch._C._nn.linear", "torch.ops.aten.linear.default"});
}

ModuleId linear_module(const Model& model, const Node& node) {
  if (node.op != Opcode::call_module) return {};
  const ModuleId id = model.modules().find(node.target);
  return id && model.modules()[id].type == "torch.nn.Linear" ? id : ModuleId{};
}

}  // namespace

NodeId LinearOp::input_of(const Model& model, NodeId id) {
  const Node& node = model.graph()[id];
  if (!is_linear_call(node) && !linear_module(model, node)) return {};
  const Arg* input = argument(node, 0, "input");
  return input && input->is<NodeId>() ? *input->get<NodeId>() : NodeId{};
}

std::optional<LinearOp> LinearOp::match(const Model& model, NodeId id) {
  const Node& node = model.graph()[id];
  auto layer = match_layer(model, id, is_linear_call(node), linear_module(model, node));
  if (!layer) return std::nullopt;
  LinearOp linear{std::move(*layer)};
  if (linear.problem.empty()) linear.problem = why_not_linear(model, linear);
  return linear;
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

std::optional<ConvOp> ConvOp::match(const Model& model, NodeId id) {
  const Node& node = model.graph()[id];
  const std::string_view name = operator_name(model, node);
  const bool call = node.op == Opcode::call_function;
  const bool plain_call = call && name == "conv2d";
  const bool transposed_call = call && name == "conv_transpose2d";
  const bool general_call = call && name == "convolution";
  const bool is_module = node.op == Opcode::call_module &&
                         one_of(name, {"torch.nn.Conv2d", "torch.nn.ConvTranspose2d"});
  auto layer = match_layer(model, id, plain_call || transposed_call || general_call,
                           is_module ? model.modules().find(node.target) : ModuleId{});
  if (!layer) return std::nullopt;
  ConvOp conv{std::move(*layer)};

  const Arg* groups = nullptr;
  if (is_module) {
    conv.transposed = name == "torch.nn.ConvTranspose2d";
    groups = parameter(model.modules()[conv.module], "groups");
  } else if (general_call) {
    const Arg* transposed = argument(node, 6, "transposed");
    conv.transposed = transposed && transposed->get<bool>() && *transposed->get<bool>();
    groups = argument(node, 8, "groups");
  } else {
    conv.transposed = transposed_call;
    groups = argument(node, 6, "groups");
  }
  if (groups && groups->get<std::int64_t>()) conv.groups = *groups->get<std::int64_t>();
  if (conv.problem.empty() && model.state().tensor(conv.weight.state).dim() != 4)
    conv.problem = "it is not a two-dimensional convolution";
  return conv;
}

}  // namespace refx
