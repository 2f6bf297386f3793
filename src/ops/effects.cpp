#include "ops/effects.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "ops/names.h"

namespace refx {

namespace {

constexpr Effect kWorst{true, true, true};
constexpr Effect kPure{};
constexpr Effect kView{true, false, false};
constexpr Effect kInPlace{true, true, false};

Effect effect_of_schema(const c10::FunctionSchema& schema) {
  Effect effect;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (!alias) continue;
    if (alias->isWrite()) (i == 0 ? effect.writes_first : effect.writes_all) = true;
    effect.views = true;
  }
  return effect;
}

// An operator by its full name; without an overload, the sum of what its overloads do.
Effect effect_of_operator(const std::string& name, const std::string* overload) {
  auto& dispatcher = c10::Dispatcher::singleton();
  if (overload) {
    const auto handle = dispatcher.findSchema({name, *overload});
    return handle ? effect_of_schema(handle->schema()) : kWorst;
  }
  // Only what a call by this name can reach: not the out= forms.
  static const auto* by_name = [] {
    auto* map = new std::unordered_map<std::string, Effect>;
    for (const auto& op : c10::Dispatcher::singleton().getAllOpNames()) {
      if (op.overload_name.find("out") != std::string::npos) continue;
      const auto handle = c10::Dispatcher::singleton().findSchema(op);
      if (!handle) continue;
      const Effect one = effect_of_schema(handle->schema());
      Effect& all = (*map)[op.name];
      all = {all.views || one.views, all.writes_first || one.writes_first,
             all.writes_all || one.writes_all};
    }
    return map;
  }();
  auto it = by_name->find(name);
  return it == by_name->end() ? kWorst : it->second;
}

// Operators that may hand an argument, or a view of it, through without saying so.
bool may_pass_through(std::string_view name) {
  static constexpr std::array<std::string_view, 28> kNames = {
      "contiguous",    "to",           "detach",       "getitem",
      "getattr",       "__getitem__",  "pos",          "__pos__",
      "positive",      "atleast_1d",   "atleast_2d",   "atleast_3d",
      "einsum",        "dequantize",   "unsafe_chunk", "unsafe_split",
      "conj_physical", "sum_to_size",  "to_dense",     "type_as",
      "resize",        "resize_as",    "type",         "broadcast_tensors",
      "meshgrid",      "resolve_conj", "resolve_neg",  "unsafe_split_with_sizes"};
  return name.find("dropout") != name.npos || name.starts_with("_cast_") ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool given(const Arg* arg) { return arg && !arg->is<None>(); }
// Python takes numbers for truth values, and a value that is computed may be anything.
bool may_be_true(const Arg* arg) {
  if (!given(arg)) return false;
  if (const bool* truth = arg->get<bool>()) return *truth;
  const auto* number = arg->get<std::int64_t>();
  return !number || *number != 0;
}

// Where a function of torch.nn.functional takes `inplace`; 0: nowhere.
std::size_t inplace_position(std::string_view target) {
  constexpr std::string_view kFunctional = "torch.nn.functional.";
  if (!target.starts_with(kFunctional)) return 0;
  const std::string_view name = target.substr(kFunctional.size());
  auto is = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (is({"relu", "relu6", "silu", "mish", "selu", "hardswish", "hardsigmoid"})) return 1;
  if (is({"elu", "celu", "leaky_relu"})) return 2;
  if (is({"hardtanh", "threshold"}) || name.find("dropout") != name.npos) return 3;
  return name == "rrelu" ? 4 : 0;
}

bool is_in_place(const Node& node) {
  const std::size_t position = inplace_position(node.target);
  return may_be_true(argument(node, position ? position : node.args.size(), "inplace"));
}

// Normalisation in training mode writes its statistics, which no schema says.
bool writes_statistics(const Node& node) {
  if (node.target.ends_with("batch_norm") || node.target.find("batch_norm.") != node.target.npos)
    return may_be_true(argument(node, 5, "training"));
  if (node.target.ends_with("instance_norm"))
    return given(argument(node, 1, "running_mean")) || given(argument(node, 2, "running_var"));
  return false;
}

// Python's own functions may hand an argument through, but write none.
bool is_builtin(std::string_view name) {
  static constexpr std::array<std::string_view, 12> kNames = {"getattr", "len",   "int",   "float",
                                                              "bool",    "max",   "min",   "sum",
                                                              "abs",     "round", "tuple", "list"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

Effect effect_of_module(const Model& model, const Node& node) {
  const ModuleId id = model.modules().find(node.target);
  if (!id) return kWorst;
  const Module& module = model.modules()[id];
  if (!module.custom.empty() || !module.type.starts_with("torch.nn.")) return kWorst;
  if (may_be_true(parameter(module, "inplace"))) return kInPlace;
  static constexpr std::array<std::string_view, 9> kViews = {
      "torch.nn.Identity",  "torch.nn.Flatten",      "torch.nn.Unflatten",
      "torch.nn.Dropout",   "torch.nn.Dropout1d",    "torch.nn.Dropout2d",
      "torch.nn.Dropout3d", "torch.nn.AlphaDropout", "torch.nn.FeatureAlphaDropout"};
  return std::find(kViews.begin(), kViews.end(), module.type) != kViews.end() ? kView : kPure;
}

Effect effect_of_python(std::string_view target, std::string_view name) {
  if (target.starts_with("math.")) return kPure;
  if (name == "getitem") return kView;
  if (name == "setitem") return kInPlace;
  // operator.iadd, operator.imul, …: in place; operator.invert, operator.index are not.
  if (name.size() > 3 && name[0] == 'i' && name != "invert" && name != "index" && name != "is_" &&
      name != "is_not" && name != "inv")
    return kInPlace;
  return kPure;
}

Effect effect_of_function(const Node& node, std::string_view name) {
  if (node.target.starts_with("operator.") || node.target.starts_with("math."))
    return effect_of_python(node.target, name);
  if (node.target.starts_with("torch.nn.init.")) return kInPlace;
  if (node.target.starts_with("builtins.") || node.target.find('.') == node.target.npos)
    return is_builtin(name) ? kView : kWorst;
  if (const auto parts = operator_target(node.target)) {
    const std::string overload = parts->overload == "default" ? "" : std::string(parts->overload);
    return effect_of_operator(std::string(parts->space) + "::" + std::string(parts->name),
                              &overload);
  }
  return effect_of_operator("aten::" + std::string(name), nullptr);
}

Effect compute_effect(const Model& model, const Node& node) {
  const std::string_view name = operator_name(model, node);
  Effect effect = node.op == Opcode::call_method
                      ? effect_of_operator("aten::" + std::string(name), nullptr)
                      : effect_of_function(node, name);
  if (may_pass_through(name)) effect.views = true;
  return effect;
}

}  // namespace

Effect effect_of(const Model& model, const Node& node) {
  if (node.op == Opcode::call_module) return effect_of_module(model, node);
  if (node.op != Opcode::call_function && node.op != Opcode::call_method) return kPure;
  if (is_in_place(node)) return kInPlace;
  if (writes_statistics(node)) return kWorst;
  if (given(argument(node, node.args.size(), "out"))) return kWorst;
  // Schemas are looked up once per target.
  static std::mutex mutex;
  static auto* known = new std::unordered_map<std::string, Effect>;
  std::string key = node.op == Opcode::call_method ? "." + node.target : node.target;
  const std::lock_guard lock(mutex);
  auto it = known->find(key);
  if (it == known->end()) it = known->emplace(std::move(key), compute_effect(model, node)).first;
  return it->second;
}

Writes::Writes(const Model& model) : graph_(model.graph()), parent_(model.graph().id_limit()) {
  std::vector<std::pair<NodeId, NodeId>> writes;  // written value, writer
  for (NodeId id : graph_) {
    const Node& node = graph_[id];
    const Effect effect = effect_of(model, node);
    if (!effect.views && !effect.writes_first && !effect.writes_all) continue;
    bool first = true;
    for_each_input(node, [&](NodeId input) {
      if (effect.views)
        if (const NodeId a = root(id), b = root(input); a != b) parent_[a.value] = b;
      if (effect.writes_all || (effect.writes_first && first)) writes.emplace_back(input, id);
      first = false;
    });
  }
  for (const auto& [value, writer] : writes) writers_[root(value)].push_back(writer);
}

NodeId Writes::root(NodeId node) const {
  NodeId top = node;
  while (parent_[top.value]) top = parent_[top.value];
  while (parent_[node.value]) node = std::exchange(parent_[node.value], top);
  return top;
}

bool Writes::between(NodeId value, NodeId first, NodeId last) const {
  auto it = writers_.find(root(value));
  if (it == writers_.end()) return false;
  const auto after_first = std::partition_point(
      it->second.begin(), it->second.end(),
      [&](NodeId writer) { return graph_.precedes(writer, first) || writer == first; });
  return after_first != it->second.end() && graph_.precedes(*after_first, last);
}

namespace {

// A view that only regroups the leading dimensions and splits the last one exists for a slice of
// columns too: some trailing sizes must multiply to the width.
bool splits_columns(const Node& view, std::int64_t width) {
  if (const Arg* dtype = argument(view, 1, "dtype"); dtype && dtype->is<c10::ScalarType>())
    return false;                   // another reading of the bits
  std::vector<std::int64_t> sizes;  // unknown: -1
  if (view.type) {
    for (const Dim& dim : view.type->sizes) sizes.push_back(dim.known() ? dim.value : -1);
  } else {
    auto add = [&](const Arg& arg) {
      sizes.push_back(arg.get<std::int64_t>() ? *arg.get<std::int64_t>() : -1);
    };
    for (std::size_t i = 1; i < view.args.size(); ++i) {
      if (const List* list = view.args[i].get<List>())
        for (const Arg& arg : list->items) add(arg);
      else if (const Tuple* tuple = view.args[i].get<Tuple>())
        for (const Arg& arg : tuple->items) add(arg);
      else
        add(view.args[i]);
    }
  }
  std::int64_t product = 1;
  for (auto it = sizes.rbegin(); it != sizes.rend() && *it > 0; ++it) {
    product *= *it;
    if (product == width) return true;
    if (product > width) return false;
  }
  return false;
}

bool needs_strides(std::string_view name) {
  static constexpr std::array<std::string_view, 12> kNames = {
      "view",          "_unsafe_view",    "as_strided",
      "view_as",       "view_as_real",    "data_ptr",
      "stride",        "storage",         "view_as_complex",
      "is_contiguous", "untyped_storage", "storage_offset"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace

bool tolerates_column_slice(const Model& model, NodeId value, std::int64_t width) {
  const Graph& graph = model.graph();
  struct Seen {
    NodeId value;
    bool whole;  // still the slice itself, not a view of it
  };
  std::vector<Seen> queue{{value, true}};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (NodeId id : graph.users(queue[i].value)) {
      const Node& user = graph[id];
      if (user.op == Opcode::output) return false;
      const Effect effect = effect_of(model, user);
      if (effect.writes_first || effect.writes_all) return false;
      const std::string_view name = operator_name(model, user);
      if (needs_strides(name) && !(queue[i].whole && name == "view" && splits_columns(user, width)))
        return false;
      if (effect.views) queue.push_back({id, false});
    }
  }
  return true;
}

}  // namespace refx
