// SPDX-License-Identifier: Apache-2.0

// Before:   y = f(g(w), 2)                 w stored and never changed; or no tensor: arange(8)
// After:    y = c                          c is a new stored constant; nodes and tensors that only
//                                          y needed are removed
// Refuses:  trainable parameters; buffers that the model changes; random numbers; memory that may
//           be written in place; results of the model; results of approximate steps; a constant
//           that makes the model larger, unless it is at most 1 MiB and not a decoded weight; an
//           intermediate value larger than 1 MiB and than all tensors of the model together; a
//           call that fails, or whose result size is known only when it runs; a value that
//           crosses the boundary of a module whose call is preserved
// Numerics: identical: the executor computes the constant once, as the model would in each run
//
// A view alone is not a site. It costs nothing, and other transformations match weights through it.

#include <ATen/EmptyTensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "book/call.h"
#include "exec/allocation_limit.h"
#include "exec/on_meta.h"
#include "ir/devices.h"
#include "ops/constant_call.h"
#include "ops/names.h"
#include "ops/param.h"
#include "ops/part.h"
#include "ops/sharing.h"
#include "refx/error.h"
#include "refx/executor.h"
#include "refx/transforms.h"
#include "util/first_line.h"
#include "util/human_bytes.h"

namespace refx {

namespace {

// What is computed from little may become this large: a mask, a table of positions.
constexpr std::size_t kSmall = std::size_t{1} << 20;  // bytes

constexpr std::string_view kAssertMetadata = "_assert_tensor_metadata";

// ---- what is constant --------------------------------------------------------------------------

struct Value {
  bool constant = false;               // computed from stored tensors and literals alone
  bool computes = false;               // not a stored tensor or a view of one
  std::optional<Reason> problem = {};  // why it cannot be folded nevertheless
};

bool is_absent_device(const Arg& arg) {
  const auto* device = arg.get<c10::Device>();
  return device && !has_device(*device);
}

class Constants {
 public:
  explicit Constants(const Model& model)
      : model_(model), graph_(model.graph()), values_(graph_.id_limit()), sharing_(model) {
    for (const Mutation& mutation : model.mutations()) mutated_.insert(mutation.target);
    for (const Step& step : model.history())
      if (step.numerics == Numerics::approximate)
        for (const Edit& edit : step.edits)
          if (const auto* node = std::get_if<Change<Node>>(&edit); node && node->after)
            approximated_.emplace(node->id, &step);
    for (NodeId id : graph_) values_[id.value] = read(id);
  }

  const Value& operator[](NodeId id) const { return values_[id.value]; }
  const Sharing& sharing() const { return sharing_; }

  // Whether it is where a constant part of the graph ends: someone reads it who is not part of it.
  // An assertion is no reason to store a value.
  bool is_root(NodeId id) const {
    const Value& value = (*this)[id];
    if (!value.constant || !value.computes) return false;
    const auto users = graph_.users(id);
    return std::any_of(users.begin(), users.end(), [&](NodeId user) {
      if (book::name_of_call(model_, graph_[user]) == kAssertMetadata) return false;
      return !(*this)[user].constant || (!value.problem && (*this)[user].problem);
    });
  }

 private:
  Value read(NodeId id) const {
    const Node& node = graph_[id];
    if (const auto name = bound_state(node); !name.empty()) return read_stored(id, name);
    if (!is_constant_call(node, [&](NodeId input) { return (*this)[input].constant; })) return {};
    Value value{.constant = true};
    const bool views = book::effect_of(model_, node).views;
    bool converts = false;
    for_each_input(node, [&](NodeId input) {
      const Value& given = (*this)[input];
      value.computes = value.computes || given.computes;
      if (!value.problem) value.problem = given.problem;
      const TypePtr& type = graph_[input].type;
      converts = converts || (type && node.type && type->dtype != node.type->dtype);
    });
    value.computes = value.computes || !views || converts;
    if (const auto it = approximated_.find(id); !value.problem && it != approximated_.end())
      value.problem = because<ReasonId::made_by_approximate_step>(it->second->id.value,
                                                                  it->second->transformation);
    if (!value.problem) value.problem = book::why_not_repeatable(model_, node);
    if (!value.problem && sharing_.is_written(id))
      value.problem = because<ReasonId::memory_written>();
    if (!value.problem && any_argument(node, is_absent_device))
      value.problem = because<ReasonId::device_missing>();
    return value;
  }

  Value read_stored(NodeId id, std::string_view name) const {
    const StateId state = model_.state().find(name);
    if (!state) return {};
    return {.constant = true, .problem = why_not_constant(id, state)};
  }

  std::optional<Reason> why_not_constant(NodeId id, StateId state) const {
    const StateEntry& entry = model_.state()[state];
    if (entry.tensor.requires_grad()) return because<ReasonId::requires_gradients>(entry.name);
    if (mutated_.contains(entry.name)) return because<ReasonId::changed_by_model>(entry.name);
    if (model_.state().storage_sharers(state) > 1)
      return because<ReasonId::memory_shared>(entry.name);
    if (const auto owner = called_owner(model_, entry.name); !owner.empty())
      return because<ReasonId::part_of_called_module>(entry.name, owner);
    if (sharing_.is_written(id)) return because<ReasonId::value_written>(entry.name);
    if (entry.tensor.is_quantized()) return because<ReasonId::quantized>(entry.name);
    if (entry.tensor.layout() != c10::kStrided) return because<ReasonId::sparse>(entry.name);
    if (entry.tensor.is_meta()) return because<ReasonId::no_data>(entry.name);
    return std::nullopt;
  }

  const Model& model_;
  const Graph& graph_;
  std::vector<Value> values_;
  Sharing sharing_;
  std::unordered_set<std::string> mutated_;
  std::unordered_map<NodeId, const Step*> approximated_;  // what lossy steps wrote
};

// ---- how large it is ---------------------------------------------------------------------------

std::size_t needed_bytes(const at::TensorBase& tensor) {
  return at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
}

// The stored tensors that a value is computed from, as far as they may be its encoding: a value of
// floats that comes from as many int8 numbers, or was unpacked from the bits of integers.
struct Encoded {
  std::array<std::uint64_t, 4> elements = {};  // of the largest with elements of 1, 2, 4, 8 bytes
  std::uint64_t integer_bits = 0;              // of the largest of integers
  std::uint64_t unpacked_bits = 0;             // likewise, of those that bits are taken out of

  void add(const Encoded& other) {
    for (std::size_t i = 0; i < elements.size(); ++i)
      elements[i] = std::max(elements[i], other.elements[i]);
    integer_bits = std::max(integer_bits, other.integer_bits);
    unpacked_bits = std::max(unpacked_bits, other.unpacked_bits);
  }
};

// What is known of a value before it is computed.
struct Extent {
  bool is_tensor = false;
  bool is_dense = false;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::uint64_t elements = 0;  // that are stored: those of expanded dimensions once
  Encoded from = {};

  std::uint64_t bytes() const {
    std::uint64_t product = 0;
    return __builtin_mul_overflow(elements, c10::elementSize(dtype), &product) ? UINT64_MAX
                                                                               : product;
  }
};

// The elements of memory that sizes and strides need.
std::uint64_t stored_elements(const std::vector<Dim>& sizes, const std::vector<Dim>& strides) {
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].value == 0) return 0;
    std::uint64_t product = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(sizes[i].value - 1),
                               static_cast<std::uint64_t>(strides[i].value), &product) ||
        __builtin_add_overflow(last, product, &last))
      return UINT64_MAX;
  }
  return last + 1;
}

Extent extent_of(const TensorType& type) {
  return {.is_tensor = true,
          .is_dense = type.layout == c10::kStrided && !c10::isQIntType(type.dtype),
          .dtype = type.dtype,
          .elements = stored_elements(type.sizes, strides_of(type))};
}

Extent extent_of(const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return tensor.defined() ? extent_of(*type_of(tensor)) : Extent{};
  }
  Extent all{.dtype = c10::ScalarType::Byte};  // no tensor: its parts, counted in bytes
  auto add = [&](const c10::IValue& item) { all.elements += extent_of(item).bytes(); };
  if (value.isTuple())
    for (const c10::IValue& item : value.toTupleRef().elements()) add(item);
  else if (value.isList())
    for (const c10::IValue& item : value.toListRef()) add(item);
  return all;
}

bool is_known(const TensorType& type) {
  auto known = [](const std::vector<Dim>& dims) {
    return std::all_of(dims.begin(), dims.end(),
                       [](const Dim& dim) { return dim.known() && dim.value >= 0; });
  };
  return known(type.sizes) && known(type.strides);
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

bool takes_bits(std::string_view op) {
  return op.starts_with("bitwise_") || op == "__and__" || op == "__rshift__" || op == "__lshift__";
}

// How large values of constants are: as the graph records it, so that nothing has to run. Where it
// records nothing, tensors without data show it.
class Extents {
 public:
  explicit Extents(const Model& model) : model_(model) {
    for (StateId id : model.state()) stored_ += needed_bytes(model.state().tensor(id));
  }

  // The most that a value on the way may take.
  std::uint64_t limit() const { return std::max<std::uint64_t>(kSmall, stored_); }

  // Throws Error where it cannot be told without running, or is out of proportion.
  const Extent& operator[](NodeId root) {
    auto known = [&](NodeId id) { return extents_.contains(id); };
    if (known(root)) return extents_.at(root);
    for (NodeId id : needed_for(model_.graph(), {root}, known)) {
      Extent extent = read(id);
      if (extent.bytes() > limit())
        throw Error(fmt::format("'{}' is larger than all tensors of the model ({})",
                                std::string_view(model_.graph()[id].name),
                                human_bytes(extent.bytes())));
      extents_.emplace(id, extent);
    }
    return extents_.at(root);
  }

 private:
  Extent read(NodeId id) {
    const Node& node = model_.graph()[id];
    if (const auto name = bound_state(node); !name.empty())
      return read_stored(model_.state().tensor(model_.state().find(name)));
    exec::isolate_call(node);  // throws if the executor refuses the call
    Extent extent;
    if (node.type && is_known(*node.type)) {
      extent = extent_of(*node.type);
    } else if (const auto items = recorded_items(id)) {
      extent = *items;
    } else {
      extent = extent_of(shape_of(id));
    }
    for_each_input(node, [&](NodeId input) { extent.from.add(extents_.at(input).from); });
    if (takes_bits(book::name_of_call(model_, node)))
      extent.from.unpacked_bits = std::max(extent.from.unpacked_bits, extent.from.integer_bits);
    return extent;
  }

  static Extent read_stored(const at::TensorBase& tensor) {
    Extent extent = extent_of(*type_of(tensor));
    const std::size_t size = tensor.itemsize();
    const std::size_t kind = size <= 1 ? 0 : size <= 2 ? 1 : size <= 4 ? 2 : 3;
    extent.from.elements[kind] = extent.elements;
    if (c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/false))
      extent.from.integer_bits = extent.elements * size * 8;
    return extent;
  }

  // Of a call with several results: what the graph records of those that are taken.
  std::optional<Extent> recorded_items(NodeId id) const {
    Extent all{.dtype = c10::ScalarType::Byte};
    for (NodeId user : model_.graph().users(id)) {
      const Node& item = model_.graph()[user];
      if (item.target != "operator.getitem" || !item.type || !is_known(*item.type)) return {};
      all.elements += extent_of(*item.type).bytes();
    }
    return model_.graph().num_users(id) > 0 ? std::optional(all) : std::nullopt;
  }

  // The value as a tensor without data.
  const c10::IValue& shape_of(NodeId id) {
    if (const auto it = shapes_.find(id); it != shapes_.end()) return it->second;
    const Node& node = model_.graph()[id];
    c10::IValue shape;
    if (const auto name = bound_state(node); !name.empty()) {
      shape = exec::meta_tensor(*type_of(model_.state().tensor(model_.state().find(name))));
    } else if (node.type && is_known(*node.type)) {
      shape = exec::meta_tensor(*node.type);
    } else {
      exec::IsolatedCall call = exec::isolate_call(exec::with_meta_device(model_, node));
      std::vector<c10::IValue> inputs;
      for (NodeId input : call.inputs) inputs.push_back(shape_of(input));
      try {
        shape = exec::run_on_meta(call, inputs);
      } catch (const Error&) {  // whose words are torch's
        throw Error(fmt::format("the size of '{}' is known only when it runs",
                                std::string_view(node.name)));
      }
    }
    return shapes_[id] = std::move(shape);
  }

  const Model& model_;
  std::uint64_t stored_ = 0;  // bytes of all tensors
  std::unordered_map<NodeId, Extent> extents_;
  std::unordered_map<NodeId, c10::IValue> shapes_;  // where the graph records none
};

bool is_recorded(const TensorType& type, const at::Tensor& tensor) {
  return type.dtype == tensor.scalar_type() && type.layout == tensor.layout() &&
         std::equal(
             type.sizes.begin(), type.sizes.end(), tensor.sizes().begin(), tensor.sizes().end(),
             [](const Dim& dim, std::int64_t size) { return dim.known() && dim.value == size; });
}

// Whether the value is an encoding written out: the stored tensors that it is computed from hold it
// in fewer bytes.
bool is_decoded(const Extent& value) {
  const std::size_t size = c10::elementSize(c10::toRealValueType(value.dtype));
  const std::uint64_t bits = value.from.unpacked_bits;
  if (bits >= value.elements && bits / 8 < value.bytes()) return true;
  for (std::size_t i = 0; i < value.from.elements.size(); ++i) {
    const std::uint64_t elements = value.from.elements[i];
    if ((std::size_t{1} << i) < size && elements >= value.elements &&
        (elements << i) < value.bytes())
      return true;
  }
  return false;
}

// What need not be stored any more once `root` is.
std::uint64_t replaced_bytes(const Model& model, NodeId root) {
  std::uint64_t bytes = 0;
  for (NodeId id : unneeded_without(model.graph(), root))
    if (const auto name = bound_state(model.graph()[id]);
        !name.empty() && is_only_reader(model, id))
      bytes += needed_bytes(model.state().tensor(model.state().find(name)));
  return bytes;
}

std::optional<Reason> why_not_stored(const Model& model, NodeId root, const Extent& value) {
  if (!value.is_tensor) return because<ReasonId::not_a_tensor>();
  if (!value.is_dense) return because<ReasonId::not_dense>();
  const std::uint64_t replaced = replaced_bytes(model, root);
  if (value.bytes() <= replaced || (value.bytes() <= kSmall && !is_decoded(value)))
    return std::nullopt;
  return because<ReasonId::model_would_grow>(human_bytes(value.bytes()), human_bytes(replaced));
}

std::optional<Reason> why_not(const Model& model, NodeId root, const Constants& constants,
                              Extents& extents) {
  if (const auto& problem = constants[root].problem) return problem;
  if (constants.sharing().is_returned(root)) return because<ReasonId::result_would_share_stored>();
  if (auto why = why_not_across_modules(model, root, root)) return why;
  try {
    return why_not_stored(model, root, extents[root]);
  } catch (const Error& error) {
    return because<ReasonId::not_precomputable>(first_line(error.what()));
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

// An operator may need more memory than its result does: sums in fp64, copies of its arguments.
constexpr std::uint64_t kWorkspace = 16;

// Computes the constant. Returns a reason if it does not run or is not what the graph recorded.
std::optional<Reason> compute(const Model& model, NodeId root, at::Tensor& constant) {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  at::Tensor result;
  try {
    Executor executor(part_of(model, needed_for(model.graph(), {root}), {root}));
    executor.use_plans(false);
    const exec::AllocationLimit limit(kWorkspace * Extents(model).limit());
    result = executor.run({}).toTupleRef().elements()[0].toTensor();
  } catch (const Error& error) {
    return because<ReasonId::not_computable>(first_line(error.what()));
  }
  if (const TypePtr& type = model.graph()[root].type; type && !is_recorded(*type, result))
    return because<ReasonId::differs_from_record>();
  constant = on_its_own(result);
  return std::nullopt;
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
  std::optional<Extents> extents;
  for (NodeId id : model.graph()) {
    if (!constants.is_root(id)) continue;
    if (!extents) extents.emplace(model);
    Site site{.nodes = unneeded_without(model.graph(), id)};
    std::erase_if(site.nodes,
                  [&](NodeId node) { return !bound_state(model.graph()[node]).empty(); });
    findings.add(std::move(site), why_not(model, id, constants, *extents));
  }
  return findings;
}

std::optional<Reason> FoldConstants::apply(Editor& editor, const Site& site) const {
  const NodeId root = site.nodes[0];
  const Node old = editor.graph()[root];
  const std::vector<NodeId> unneeded = unneeded_without(editor.graph(), root);
  at::Tensor tensor;
  if (auto why = compute(editor.model(), root, tensor)) return why;
  const NodeId where = after_lifted(editor.graph(), root);
  std::string name = where ? node_path(old) : std::string(old.name);
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
  return std::nullopt;
}

}  // namespace refx
