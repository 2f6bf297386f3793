// Before:   y = f(g(w), 2)                 w stored and never changed; or no tensor: arange(8)
// After:    y = c                          c stored, a new constant; what only y needed goes
// Refuses:  parameters that are trained; buffers that the model changes; random numbers; memory
//           that may be written in place; a result of the model; one that would make the model
//           larger, or is larger on the way than all its tensors; what does not run, or whose size
//           only a run tells; a value that enters or leaves a module that keeps its calls
// Numerics: the same bits: computed once by the executor, as the model would every time
//
// Views alone are no site: they cost nothing, and others look for the weight behind them.

#include <ATen/EmptyTensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "book/call.h"
#include "ir/devices.h"
#include "ops/names.h"
#include "ops/param.h"
#include "ops/sharing.h"
#include "refx/builder.h"
#include "refx/error.h"
#include "refx/executor.h"
#include "refx/transforms.h"
#include "util/first_line.h"

namespace refx {

namespace {

// What is computed from little may become this large: a mask, a table of positions.
constexpr std::size_t kSmall = std::size_t{1} << 20;  // bytes

// ---- what is constant --------------------------------------------------------------------------

struct Value {
  bool constant = false;     // computed from stored tensors and literals alone
  bool computes = false;     // not a stored tensor or a view of one
  std::string problem = {};  // why it cannot be folded nevertheless
};

template <class F>
bool any_part(const Arg& arg, const F& f) {
  auto any = [&](const Args& args) {
    return std::any_of(args.begin(), args.end(), [&](const Arg& a) { return any_part(a, f); });
  };
  if (const auto* list = arg.get<List>()) return any(list->items);
  if (const auto* tuple = arg.get<Tuple>()) return any(tuple->items);
  if (const auto* slice = arg.get<Slice>()) return any(slice->parts);
  return f(arg);
}
template <class F>
bool any_argument(const Node& node, const F& f) {
  return std::any_of(node.args.begin(), node.args.end(),
                     [&](const Arg& arg) { return any_part(arg, f); }) ||
         std::any_of(node.kwargs.begin(), node.kwargs.end(),
                     [&](const auto& kwarg) { return any_part(kwarg.second, f); });
}

bool is_unknown(const Arg& arg) { return arg.is<SymInt>() || arg.is<Raw>() || arg.is<Dict>(); }
bool is_absent_device(const Arg& arg) {
  const auto* device = arg.get<c10::Device>();
  return device && !has_device(*device);
}

class Constants {
 public:
  explicit Constants(const Model& model)
      : model_(model), graph_(model.graph()), values_(graph_.id_limit()), sharing_(model) {
    for (const Mutation& mutation : model.mutations()) mutated_.insert(mutation.target);
    for (NodeId id : graph_) values_[id.value] = read(id);
  }

  const Value& operator[](NodeId id) const { return values_[id.value]; }
  const Sharing& sharing() const { return sharing_; }

  // Whether it is where a constant part of the graph ends: someone reads it who is not part of it.
  bool is_root(NodeId id) const {
    const Value& value = (*this)[id];
    if (!value.constant || !value.computes) return false;
    const auto users = graph_.users(id);
    return std::any_of(users.begin(), users.end(), [&](NodeId user) {
      return !(*this)[user].constant || (value.problem.empty() && !(*this)[user].problem.empty());
    });
  }

 private:
  Value read(NodeId id) const {
    const Node& node = graph_[id];
    if (const auto name = bound_state(node); !name.empty()) return read_stored(id, name);
    if (node.op != Opcode::call_function && node.op != Opcode::call_method) return {};
    if (any_argument(node, is_unknown)) return {};
    Value value{.constant = true};
    const bool views = book::effect_of(model_, node).views;
    bool converts = false;
    for_each_input(node, [&](NodeId input) {
      const Value& given = (*this)[input];
      value.constant = value.constant && given.constant;
      value.computes = value.computes || given.computes;
      if (value.problem.empty()) value.problem = given.problem;
      const TypePtr& type = graph_[input].type;
      converts = converts || (type && node.type && type->dtype != node.type->dtype);
    });
    if (!value.constant) return {};
    value.computes = value.computes || !views || converts;
    if (value.problem.empty()) value.problem = book::why_not_repeatable(model_, node);
    if (value.problem.empty() && sharing_.is_written(id))
      value.problem = "its memory may be written in place";
    if (value.problem.empty() && any_argument(node, is_absent_device))
      value.problem = "its device is not there";
    return value;
  }

  Value read_stored(NodeId id, std::string_view name) const {
    const StateId state = model_.state().find(name);
    if (!state) return {};
    return {.constant = true, .problem = why_not_constant(id, state)};
  }

  std::string why_not_constant(NodeId id, StateId state) const {
    const StateEntry& entry = model_.state()[state];
    if (entry.tensor.requires_grad())
      return fmt::format("'{}' requires gradients: training may change it", entry.name);
    if (mutated_.contains(entry.name))
      return fmt::format("'{}' is changed by the model itself", entry.name);
    if (model_.state().storage_sharers(state) > 1)
      return fmt::format("'{}' shares its memory with another tensor", entry.name);
    if (const auto owner = called_owner(model_, entry.name); !owner.empty())
      return fmt::format("'{}' is part of module '{}', which is called", entry.name, owner);
    if (sharing_.is_written(id)) return fmt::format("'{}' may be written in place", entry.name);
    if (entry.tensor.is_quantized()) return fmt::format("'{}' is quantized", entry.name);
    if (entry.tensor.layout() != c10::kStrided) return fmt::format("'{}' is sparse", entry.name);
    if (entry.tensor.is_meta()) return fmt::format("'{}' has no data (meta device)", entry.name);
    return "";
  }

  const Model& model_;
  const Graph& graph_;
  std::vector<Value> values_;
  Sharing sharing_;
  std::unordered_set<std::string> mutated_;
};

// ---- how large it is ---------------------------------------------------------------------------

std::size_t needed_bytes(const at::TensorBase& tensor) {
  return at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
}

std::size_t bytes_of(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() ? needed_bytes(value.toTensor()) : 0;
  std::size_t bytes = 0;
  if (value.isTuple())
    for (const c10::IValue& item : value.toTupleRef().elements()) bytes += bytes_of(item);
  else if (value.isList())
    for (const c10::IValue& item : value.toListRef()) bytes += bytes_of(item);
  return bytes;
}

template <class F>
Arg with_ids(const Arg& arg, const F& id_of) {
  auto all = [&](const Args& args) {
    Args result;
    for (const Arg& item : args) result.push_back(with_ids(item, id_of));
    return result;
  };
  if (const auto* id = arg.get<NodeId>()) return id_of(*id);
  if (const auto* list = arg.get<List>()) return List{all(list->items)};
  if (const auto* tuple = arg.get<Tuple>()) return Tuple{all(tuple->items)};
  if (const auto* slice = arg.get<Slice>()) return Slice{all(slice->parts)};
  return arg;
}
template <class F>
void set_ids(Node& node, const F& id_of) {
  for (Arg& arg : node.args) arg = with_ids(arg, id_of);
  for (auto& [name, arg] : node.kwargs) arg = with_ids(arg, id_of);
}

void put_on_meta(const Model& model, Node& node) {
  for (Arg& arg : node.args)
    if (arg.is<c10::Device>()) return void(arg = c10::Device(at::kMeta));
  if (!book::Call(model, node).takes("device")) return;
  std::erase_if(node.kwargs, [](const auto& kwarg) { return kwarg.first == "device"; });
  node.kwargs.emplace_back("device", c10::Device(at::kMeta));
}

c10::IValue run_once(const Model& model, const std::vector<c10::IValue>& inputs) {
  Executor executor(model);
  executor.use_plans(false);
  return executor.run(inputs);
}

// The nodes that `root` is computed by and that `known` does not have, in order; it is the last.
template <class F>
std::vector<NodeId> part_of(const Graph& graph, NodeId root, const F& known) {
  std::vector<NodeId> nodes{root};
  std::unordered_set<NodeId> seen{root};
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for_each_input(graph[nodes[i]], [&](NodeId input) {
      if (!known(input) && seen.insert(input).second) nodes.push_back(input);
    });
  std::sort(nodes.begin(), nodes.end(), [&](NodeId a, NodeId b) { return graph.precedes(a, b); });
  return nodes;
}

// Those that nobody reads once `root` is stored: it is the first.
std::vector<NodeId> unneeded_without(const Graph& graph, NodeId root) {
  std::vector<NodeId> nodes{root};
  std::unordered_map<NodeId, std::size_t> gone;  // of a value, so many users
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::unordered_set<NodeId> inputs;
    for_each_input(graph[nodes[i]], [&](NodeId input) {
      if (inputs.insert(input).second && ++gone[input] == graph.num_users(input))
        nodes.push_back(input);
    });
  }
  return nodes;
}

bool is_only_reader(const Model& model, NodeId id) {
  return model.graph().num_readers(bound_state(model.graph()[id])) == 1;
}

// The values of constants as tensors without data; each is computed once.
class Shapes {
 public:
  explicit Shapes(const Model& model) : model_(model) {
    for (StateId id : model.state()) stored_ += bytes_of(at::Tensor(model.state().tensor(id)));
  }

  // Throws Error where it cannot be told without running, or is out of proportion.
  const c10::IValue& operator[](NodeId root) {
    auto known = [&](NodeId id) { return values_.contains(id); };
    if (known(root)) return values_.at(root);
    for (NodeId id : part_of(model_.graph(), root, known)) {
      c10::IValue value = compute(id);
      if (const std::size_t bytes = bytes_of(value); bytes > std::max(kSmall, stored_))
        throw Error(fmt::format("'{}' is larger than all tensors of the model ({:.1f} MiB)",
                                model_.graph()[id].name, in_mebibytes(bytes)));
      values_[id] = std::move(value);
    }
    return values_.at(root);
  }

  static double in_mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

 private:
  c10::IValue compute(NodeId id) const {
    Node node = model_.graph()[id];
    if (const auto name = bound_state(node); !name.empty()) {
      const at::TensorBase& tensor = model_.state().tensor(model_.state().find(name));
      return at::empty_strided(tensor.sizes(), tensor.strides(),
                               at::TensorOptions(tensor.scalar_type()).device(at::kMeta));
    }
    put_on_meta(model_, node);
    Builder builder;
    std::vector<c10::IValue> inputs;
    set_ids(node, [&](NodeId input) {
      inputs.push_back(values_.at(input));
      return builder.input(fmt::format("input_{}", inputs.size()));
    });
    const NodeId result = node.op == Opcode::call_method
                              ? builder.method(node.target, node.args, node.kwargs)
                              : builder.call(node.target, node.args, node.kwargs);
    return run_once(builder.build(result), inputs);
  }

  const Model& model_;
  std::size_t stored_ = 0;  // bytes of all tensors
  std::unordered_map<NodeId, c10::IValue> values_;
};

bool is_recorded(const TensorType& type, const at::Tensor& tensor) {
  return type.dtype == tensor.scalar_type() && type.layout == tensor.layout() &&
         std::equal(
             type.sizes.begin(), type.sizes.end(), tensor.sizes().begin(), tensor.sizes().end(),
             [](const Dim& dim, std::int64_t size) { return dim.known() && dim.value == size; });
}

std::string why_not_stored(const Model& model, NodeId root, const c10::IValue& value) {
  if (!value.isTensor()) return "it is no tensor";
  const at::Tensor& result = value.toTensor();
  if (result.layout() != c10::kStrided || result.is_quantized()) return "it is not a dense tensor";
  const TypePtr& type = model.graph()[root].type;
  if (type && !is_recorded(*type, result)) return "it has another type than the graph records";
  std::size_t replaced = 0;
  for (NodeId id : unneeded_without(model.graph(), root))
    if (const auto name = bound_state(model.graph()[id]);
        !name.empty() && is_only_reader(model, id))
      replaced += needed_bytes(model.state().tensor(model.state().find(name)));
  const std::size_t bytes = needed_bytes(result);
  if (bytes <= std::max(kSmall, replaced)) return "";
  return fmt::format("the model would become larger: {:.1f} MiB instead of {:.1f} MiB",
                     Shapes::in_mebibytes(bytes), Shapes::in_mebibytes(replaced));
}

std::string why_not(const Model& model, NodeId root, const Constants& constants, Shapes& shapes) {
  if (const std::string& problem = constants[root].problem; !problem.empty()) return problem;
  if (constants.sharing().is_returned(root))
    return "a result of the model would share memory with the stored tensor";
  if (std::string why = why_not_across_modules(model, root, root); !why.empty()) return why;
  try {
    return why_not_stored(model, root, shapes[root]);
  } catch (const Error& error) {
    return fmt::format("it cannot be computed beforehand: {}", first_line(error.what()));
  }
}

// ---- the constant ------------------------------------------------------------------------------

// The same values and strides in memory of its own, with zeros in the gaps.
at::Tensor on_its_own(const at::Tensor& tensor) {
  const auto count = static_cast<std::int64_t>(needed_bytes(tensor) / tensor.itemsize());
  const at::Tensor memory = at::zeros({count}, tensor.options());
  at::Tensor target = memory.as_strided(tensor.sizes(), tensor.strides());
  at::Tensor once = target, values = tensor;  // what lies in one place is written once
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim)
    if (tensor.stride(dim) == 0 && tensor.size(dim) > 1) {
      once = once.narrow(dim, 0, 1);
      values = values.narrow(dim, 0, 1);
    }
  once.copy_(values);
  return target;
}

// The part of the model that `root` is computed by, as a model.
Model part_alone(const Model& model, NodeId root) {
  Model alone;
  Editor editor(alone);
  std::unordered_map<NodeId, NodeId> ids;
  NodeId last;
  for (NodeId id : part_of(model.graph(), root, [](NodeId) { return false; })) {
    Node node = model.graph()[id];
    node.marks.clear();
    if (const auto name = bound_state(node); !name.empty() && !editor.state().find(name))
      editor.add_state({std::string(name), StateKind::constant, true,
                        tensor_of(model, {model.state().find(name), id})});
    set_ids(node, [&](NodeId input) { return ids.at(input); });
    last = ids[id] = editor.insert_before(NodeId{}, std::move(node));
  }
  editor.insert_before(
      NodeId{}, {.op = Opcode::output, .name = "output", .target = "output", .args = {last}});
  editor.commit_as_origin(model.source());
  return alone;
}

at::Tensor compute(const Model& model, NodeId root) {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  return on_its_own(run_once(part_alone(model, root), {}).toTensor());
}

// Where torch.export would put the placeholder of a new constant; no id where tensors are read by
// get_attr.
NodeId after_lifted(const Graph& graph, NodeId root) {
  NodeId last;
  for (NodeId id : graph) {
    const Node& node = graph[id];
    if (node.op == Opcode::get_attr) return {};
    if (node.op != Opcode::placeholder) continue;
    if (!node.state.empty()) last = id;
  }
  if (last) return graph.next(last);
  if (!book::parse_target(graph[root].target).is_op()) return {};
  return graph.first();
}

}  // namespace

Findings FoldConstants::find(const Model& model) const {
  Findings findings;
  const Constants constants(model);
  std::optional<Shapes> shapes;
  for (NodeId id : model.graph()) {
    if (!constants.is_root(id)) continue;
    if (!shapes) shapes.emplace(model);
    Site site{site_name(model.graph()[id]), unneeded_without(model.graph(), id)};
    std::erase_if(site.nodes,
                  [&](NodeId node) { return !bound_state(model.graph()[node]).empty(); });
    std::string reason = why_not(model, id, constants, *shapes);
    if (reason.empty())
      findings.sites.push_back(std::move(site));
    else
      findings.refusals.push_back({std::move(site), std::move(reason)});
  }
  return findings;
}

void FoldConstants::apply(Editor& editor, const Site& site) const {
  const NodeId root = site.nodes[0];
  const Node old = editor.graph()[root];
  const std::vector<NodeId> unneeded = unneeded_without(editor.graph(), root);
  const at::Tensor tensor = compute(editor.model(), root);
  const NodeId where = after_lifted(editor.graph(), root);
  std::string name = where ? site_name(old) : std::string(old.name);
  name.insert(name.size() - old.name.size(), "folded_");
  name = editor.state().fresh_name(name);
  editor.add_state({name, StateKind::constant, true, tensor});
  if (where) {
    Node placeholder{.op = Opcode::placeholder,
                     .name = editor.graph().fresh_name("c_folded_" + old.name),
                     .state = name,
                     .type = type_of(tensor)};
    placeholder.target = placeholder.name;
    const NodeId stored = editor.insert_before(where, std::move(placeholder));
    editor.mark(stored, signature());
    editor.replace_uses(root, stored);
  } else {
    editor.set_node(root,
                    {.op = Opcode::get_attr, .target = name, .type = old.type, .meta = old.meta});
  }
  for (NodeId id : unneeded) {
    if (!where && id == root) continue;
    const std::string state(bound_state(editor.graph()[id]));
    editor.erase_node(id);
    if (!state.empty() && editor.graph().num_readers(state) == 0)
      editor.erase_state(editor.state().find(state));
  }
}

}  // namespace refx
