#include "ops/inference.h"

#include <algorithm>
#include <array>

#include "ops/names.h"

namespace refx {

namespace {

constexpr int kMaxDepth = 64;  // of a chain of untyped nodes

constexpr std::array<std::string_view, 26> kIntegerOps = {
    "size",  "dim",      "numel",  "shape",    "sym_size", "sym_numel", "long",
    "int",   "argmax",   "argmin", "arange",   "argsort",  "floordiv",  "floor_divide",
    "short", "bool",     "eq",     "ne",       "lt",       "le",        "gt",
    "ge",    "nonzero",  "len",    "ndim",     "stride"};

constexpr std::array<std::string_view, 8> kArithmetic = {"add", "sub", "mul", "neg",
                                                         "mod", "pow", "abs", "getitem"};

// Layers and functions that yield as many dimensions as their first input has.
constexpr std::array<std::string_view, 36> kKeepRank = {
    "linear",           "torch.nn.Linear",      "relu",             "torch.nn.ReLU",
    "gelu",             "torch.nn.GELU",        "dropout",          "torch.nn.Dropout",
    "batch_norm",       "torch.nn.BatchNorm1d", "layer_norm",       "torch.nn.LayerNorm",
    "sigmoid",          "torch.nn.Sigmoid",     "tanh",             "torch.nn.Tanh",
    "torch.nn.SiLU",    "silu",                 "torch.nn.Identity", "contiguous",
    "torch.nn.ReLU6",   "relu6",                "hardswish",        "torch.nn.Hardswish",
    "leaky_relu",       "torch.nn.LeakyReLU",   "elu",              "torch.nn.ELU",
    "torch.nn.Softmax", "softmax",              "relu_",            "clone",
    "conv2d",           "torch.nn.Conv2d",      "conv_transpose2d", "torch.nn.ConvTranspose2d"};

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const NodeId* first_input(const Node& node) {
  const Arg* arg = argument(node, 0, "input");
  return arg ? arg->get<NodeId>() : nullptr;
}

bool integer(const Model& model, NodeId id, int depth) {
  if (const auto dtype = known_dtype(model, id))
    return !c10::isFloatingType(*dtype) && !c10::isComplexType(*dtype);
  const Node& node = model.graph()[id];
  if (depth == kMaxDepth) return true;
  if (node.op == Opcode::placeholder || node.op == Opcode::get_attr) return false;
  if (node.target == "getattr" || node.target == "builtins.getattr") {
    const Arg* what = argument(node, 1, "name");
    const auto* name = what ? what->get<std::string>() : nullptr;
    return name && (*name == "shape" || *name == "ndim");
  }
  const std::string_view name = operator_name(model, node);
  if (contains(kIntegerOps, name)) return true;
  if (!contains(kArithmetic, name)) return false;
  bool all = true;
  for_each_input(node, [&](NodeId input) { all = all && integer(model, input, depth + 1); });
  return all;
}

// flatten(x, 1) of anything yields two dimensions.
bool flattens_to_matrix(const Model& model, const Node& node, std::string_view name) {
  auto number = [](const Arg* arg, std::int64_t otherwise) {
    return arg && arg->get<std::int64_t>() ? *arg->get<std::int64_t>() : arg ? -2 : otherwise;
  };
  if (name == "torch.nn.Flatten") {
    const Module& module = model.modules()[model.modules().find(node.target)];
    return number(parameter(module, "start_dim"), 1) == 1 &&
           number(parameter(module, "end_dim"), -1) == -1;
  }
  return name == "flatten" && number(argument(node, 1, "start_dim"), 0) == 1 &&
         number(argument(node, 2, "end_dim"), -1) == -1;
}

}  // namespace

std::optional<c10::ScalarType> known_dtype(const Model& model, NodeId id) {
  const Node& node = model.graph()[id];
  if (node.type) return node.type->dtype;
  const std::string_view name = bound_state(node);
  if (name.empty()) return std::nullopt;
  const StateId state = model.state().find(name);
  return state ? std::optional(model.state().tensor(state).scalar_type()) : std::nullopt;
}

bool may_be_integer(const Model& model, NodeId node) { return integer(model, node, 0); }

std::optional<std::size_t> known_rank(const Model& model, NodeId id) {
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    const Node& node = model.graph()[id];
    if (node.type) return node.type->sizes.size();
    const std::string_view name = operator_name(model, node);
    if (flattens_to_matrix(model, node, name)) return 2;
    const NodeId* input = first_input(node);
    if (!input || !contains(kKeepRank, name)) return std::nullopt;
    id = *input;
  }
  return std::nullopt;
}

}  // namespace refx
