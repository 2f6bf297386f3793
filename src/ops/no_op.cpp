// SPDX-License-Identifier: Apache-2.0

#include "ops/no_op.h"

#include <algorithm>
#include <limits>

#include "book/call.h"
#include "book/facts.h"
#include "book/result_types.h"
#include "ops/param.h"

namespace refx {

namespace {

using book::Call;
using book::first_input;

constexpr int kMaxDepth = 8;  // of a chain of reshapes

bool is_number(const std::optional<Arg>& arg, double number) {
  if (!arg) return false;
  if (const auto* integer = arg->get<std::int64_t>())
    return static_cast<double>(*integer) == number;
  return arg->get<double>() && *arg->get<double>() == number;
}

bool is_false(const std::optional<Arg>& arg) { return arg == Arg(false) || is_number(arg, 0); }

TypePtr recorded_type(const Model& model, NodeId id) {
  const Node& node = model.graph()[id];
  if (node.type) return node.type;
  const Arg arg(id);
  const auto param = param_of(model, &arg);
  return param ? type_of(model.state().tensor(param->state)) : nullptr;
}

bool same_kind(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.device == b.device && a.layout == b.layout;
}

// The first argument, if the graph records one type for both.
NodeId kept_elements(const Model& model, NodeId id, NodeId input) {
  const TypePtr result = recorded_type(model, id), given = recorded_type(model, input);
  return result && given && same_kind(*result, *given) && same_sizes(*result, *given) ? input
                                                                                      : NodeId{};
}

// What a chain of reshapes began with, if it is back at its shape.
NodeId reshaped_back(const Model& model, NodeId id) {
  const TypePtr result = recorded_type(model, id);
  for (int depth = 0; result && depth < kMaxDepth; ++depth) {
    const Node& node = model.graph()[id];
    const Call call(model, node);
    if (call.spelled() != Call::Spelled::op || !(call.facts() & book::kReshapes)) return {};
    id = first_input(node);
    const TypePtr given = id ? recorded_type(model, id) : nullptr;
    if (!given || !same_kind(*result, *given)) return {};
    if (same_sizes(*result, *given)) return id;
  }
  return {};
}

bool is_idle_dropout(const Call& call) {
  return call.name().ends_with("dropout") && !call.is("native_dropout") && call.takes("p") &&
         call.takes("train") &&
         (is_false(call.argument("train")) || is_number(call.argument("p"), 0));
}

// Without it, gradients would flow: not where there are none.
bool is_idle_detach(const Model& model, NodeId input) {
  const Arg arg(input);
  if (const auto param = param_of(model, &arg))
    return !model.state().tensor(param->state).requires_grad();
  const auto dtype = book::known_dtype(model, input);
  return dtype && !c10::isFloatingType(*dtype) && !c10::isComplexType(*dtype);
}

// x * 1, x / 1, x + 0 where that is x, bit for bit: floating-point -0 + 0 is 0.
NodeId neutral(const Model& model, const Call& call) {
  const bool factor = call.is("mul") || call.is("div");
  if (!factor && !call.is("add") && !call.is("sub")) return {};
  NodeId input = call.value("self");
  std::optional<Arg> other = call.argument("other");
  if (!input && (call.is("mul") || call.is("add"))) {
    input = call.value("other");
    other = call.argument("self");
  }
  if (!input || !is_number(other, factor ? 1 : 0)) return {};
  const auto dtype = book::known_dtype(model, input);
  if (!dtype) return {};
  // Division makes floats of integers, and so does a float operand.
  if (c10::isIntegralType(*dtype, /*includeBool=*/false))
    return !call.is("div") && other->is<std::int64_t>() ? input : NodeId{};
  const auto mode = call.takes("rounding_mode") ? call.argument("rounding_mode") : Arg(None{});
  return factor && c10::isFloatingType(*dtype) && mode == Arg(None{}) ? input : NodeId{};
}

bool is_whole(const Arg& start, const Arg& stop, const Arg& step) {
  // torch.export writes an open end as the largest integer.
  const auto* end = stop.get<std::int64_t>();
  return (start.is<None>() || start == Arg(0)) &&
         (stop.is<None>() || (end && *end == std::numeric_limits<std::int64_t>::max())) &&
         (step.is<None>() || step == Arg(1));
}

// x[:], x[..., :] of a tensor.
bool indexes_all(const Arg& index) {
  if (const Tuple* tuple = index.get<Tuple>())
    return std::all_of(tuple->items.begin(), tuple->items.end(), indexes_all);
  if (const Slice* slice = index.get<Slice>())
    return slice->parts.size() == 3 && is_whole(slice->parts[0], slice->parts[1], slice->parts[2]);
  return index.is<Ellipsis>();
}

bool slices_all(const Call& call) {
  const auto start = call.argument("start"), end = call.argument("end"),
             step = call.argument("step");
  return start && end && step && is_whole(*start, *end, *step);
}

// The numbers after the first argument, given one by one or as a list; none if there is anything
// else.
std::optional<std::vector<std::int64_t>> numbers(const Node& node) {
  Args args(node.args.begin() + (node.args.empty() ? 0 : 1), node.args.end());
  if (args.size() == 1) {
    if (const List* list = args[0].get<List>())
      args = Args(list->items);
    else if (const Tuple* tuple = args[0].get<Tuple>())
      args = Args(tuple->items);
  }
  std::vector<std::int64_t> all;
  for (const Arg& arg : args) {
    const auto* number = arg.get<std::int64_t>();
    if (!number) return std::nullopt;
    all.push_back(*number);
  }
  return all;
}

bool expands_nothing(const Node& node) {
  const auto sizes = numbers(node);
  return node.kwargs.empty() && sizes && !sizes->empty() &&
         std::all_of(sizes->begin(), sizes->end(), [](std::int64_t size) { return size == -1; });
}

// The dimensions that a transposition or permutation of `rank` dimensions reads, in order.
using Order = std::vector<std::int64_t>;
std::optional<Order> order_of(const Model& model, const Node& node, std::size_t rank) {
  const Call call(model, node);
  const auto given = node.kwargs.empty() ? numbers(node) : std::nullopt;
  if (!given) return std::nullopt;
  Order dims = *given;
  for (std::int64_t& dim : dims) {
    if (dim < 0) dim += static_cast<std::int64_t>(rank);
    if (dim < 0 || dim >= static_cast<std::int64_t>(rank)) return std::nullopt;
  }
  if (call.is("permute")) return dims.size() == rank ? std::optional(dims) : std::nullopt;
  Order order(rank);
  for (std::size_t i = 0; i < rank; ++i) order[i] = static_cast<std::int64_t>(i);
  if (call.is("t") && rank == 2 && dims.empty()) return Order{1, 0};
  if (!call.is("transpose") || dims.size() != 2) return std::nullopt;
  std::swap(order[static_cast<std::size_t>(dims[0])], order[static_cast<std::size_t>(dims[1])]);
  return order;
}

bool reorders(const Call& call) {
  return call.is("permute") || call.is("transpose") || call.is("t");
}

// Whether the second undoes the first, whatever the rank is.
bool is_same_swap(const Model& model, const Node& first, const Node& second) {
  const Call call(model, first);
  if (call.is("permute") || !Call(model, second).is(call.name())) return false;
  auto a = numbers(first), b = numbers(second);
  if (!a || !b || !first.kwargs.empty() || !second.kwargs.empty()) return false;
  std::sort(a->begin(), a->end());
  std::sort(b->begin(), b->end());
  return a == b;
}

// The value whose dimensions are in place again after this transposition, and maybe the one before.
NodeId transposed_back(const Model& model, NodeId id, NodeId inner) {
  const Graph& graph = model.graph();
  const bool twice = reorders(Call(model, graph[inner]));
  if (twice && is_same_swap(model, graph[inner], graph[id])) return first_input(graph[inner]);
  const auto rank = book::known_rank(model, inner);
  const auto order = rank ? order_of(model, graph[id], *rank) : std::nullopt;
  if (!order) return {};
  if (std::is_sorted(order->begin(), order->end())) return inner;
  if (!twice) return {};
  const auto before = order_of(model, graph[inner], *rank);
  if (!before) return {};
  for (std::size_t i = 0; i < *rank; ++i)
    if ((*before)[static_cast<std::size_t>((*order)[i])] != static_cast<std::int64_t>(i)) return {};
  return first_input(graph[inner]);
}

}  // namespace

NodeId no_op_input(const Model& model, NodeId id) {
  const Node& node = model.graph()[id];
  const Call call(model, node);
  if (call.spelled() == Call::Spelled::nothing) return {};
  // Its forward was replaced, or it has hooks.
  if (call.module() && !call.module()->custom.empty()) return {};
  const book::Effect effect = book::effect_of(model, node);
  if (effect.writes_first || effect.writes_all) return {};
  // Before the first input: in 1 * x the value that is kept is the second.
  if (const NodeId input = neutral(model, call)) return input;
  const NodeId input = first_input(node);
  if (!input) return {};
  if ((call.facts() & book::kPassesThrough) || is_idle_dropout(call)) return input;
  if ((call.is("detach") || call.is("detach_")) && is_idle_detach(model, input)) return input;
  if (call.is("slice") && slices_all(call)) return input;
  if (call.is("expand") && expands_nothing(node)) return input;
  if (call.is("getitem") && node.args.size() == 2 && recorded_type(model, input) &&
      indexes_all(node.args[1]))
    return input;
  if (reorders(call)) return transposed_back(model, id, input);
  // torch.fx records the types of an example, with which a reshape may be a no-op by chance;
  // torch.export guards its types.
  if (call.spelled() != Call::Spelled::op) return {};
  if (call.facts() & book::kKeepsElements) return kept_elements(model, id, input);
  return call.facts() & book::kReshapes ? reshaped_back(model, id) : NodeId{};
}

}  // namespace refx
