// SPDX-License-Identifier: Apache-2.0

#include "graph_json/strides.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "book/call.h"

namespace refx {

namespace {

using Numbers = std::vector<std::int64_t>;

// Sizes or strides with the hints of symbols; nothing where one has none.
std::optional<Numbers> plain_numbers(const std::vector<Dim>& dims) {
  Numbers out;
  for (const Dim& dim : dims) {
    if (dim.value < 0) return std::nullopt;
    out.push_back(dim.value);
  }
  return out;
}

std::optional<at::Tensor> example(const TensorType& type) {
  const auto sizes = plain_numbers(type.sizes);
  const auto strides = plain_numbers(strides_of(type));
  if (!sizes || !strides || type.layout != c10::kStrided) return std::nullopt;
  return at::empty_strided(*sizes, *strides,
                           at::TensorOptions().dtype(type.dtype).device(c10::kMeta));
}

std::optional<std::int64_t> integer(const Node& node, std::size_t position,
                                    std::optional<std::int64_t> otherwise = {}) {
  if (position >= node.args.size()) return otherwise;
  const auto* value = node.args[position].get<std::int64_t>();
  return value ? std::optional(*value) : std::nullopt;
}

std::optional<Numbers> integers(const Arg& arg) {
  Numbers out;
  const List* list = arg.get<List>();
  if (!list) return std::nullopt;
  for (const Arg& item : list->items) {
    const auto* value = item.get<std::int64_t>();
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

// What the node makes of its first argument, where that is a view of it.
std::optional<at::Tensor> view_of(const at::Tensor& input, std::string_view op, const Node& node) {
  const auto sizes = plain_numbers(node.type->sizes);
  if (!sizes) return std::nullopt;
  if (op == "view" || op == "_unsafe_view" || op == "unflatten") return input.view(*sizes);
  if (op == "reshape" || op == "flatten") return input.reshape(*sizes);
  if (op == "expand") return input.expand(*sizes);
  if (op == "detach" || op == "alias") return input;
  if (op == "t") return input.t();
  if (op == "permute" && node.args.size() > 1) {
    const auto dims = integers(node.args[1]);
    return dims ? std::optional(input.permute(*dims)) : std::nullopt;
  }
  const auto first = integer(node, 1);
  if (op == "transpose") {
    const auto second = integer(node, 2);
    return first && second ? std::optional(input.transpose(*first, *second)) : std::nullopt;
  }
  if (op == "unsqueeze") return first ? std::optional(input.unsqueeze(*first)) : std::nullopt;
  if (op == "squeeze") return first ? std::optional(input.squeeze(*first)) : std::nullopt;
  if (op == "select") return first ? std::optional(input.select(*first, 0)) : std::nullopt;
  if (op == "slice" && integer(node, 4, 1) == 1) {
    const auto dim = integer(node, 1, 0);
    if (!dim) return std::nullopt;
    const auto at = static_cast<std::size_t>(*dim < 0 ? *dim + input.dim() : *dim);
    if (at >= sizes->size()) return std::nullopt;
    return input.narrow(static_cast<std::int64_t>(at), 0, (*sizes)[at]);
  }
  return std::nullopt;
}

// The old stride with another number in front: "32*s1" becomes "96*s1" where it is 3 times as
// large.
std::optional<Dim> scaled(const Dim& old, std::int64_t value) {
  if (old.known()) return Dim(value);
  if (old.value == value) return old;
  std::int64_t factor = 1;
  std::string_view rest = old.expr;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), factor);
  if (error == std::errc() && end < rest.data() + rest.size() && *end == '*')
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()) + 1);
  else
    factor = 1;
  std::int64_t product = 0;
  if (old.value <= 0 || rest.find_first_of("+- /") != rest.npos ||
      __builtin_mul_overflow(factor, value, &product) || product % old.value != 0)
    return std::nullopt;
  const std::int64_t now = product / old.value;
  return Dim(now == 1 ? std::string(rest) : fmt::format("{}*{}", now, rest), value);
}

TypePtr with_strides(const TypePtr& old, at::IntArrayRef strides) {
  auto type = std::make_shared<TensorType>(*old);
  const std::vector<Dim> before = strides_of(*old);
  type->strides.clear();
  for (std::size_t i = 0; i < before.size(); ++i) {
    auto dim = scaled(before[i], strides[i]);
    if (!dim) return old;
    type->strides.push_back(std::move(*dim));
  }
  return type->strides == before ? old : type;
}

}  // namespace

std::unordered_map<NodeId, TypePtr> types_of_views(const Model& model, const GraphText& text) {
  std::unordered_map<NodeId, TypePtr> types, changed;  // changed: those, and where they come from
  for (NodeId id : model.graph()) {
    const Node& node = model.graph()[id];
    if (!node.type || node.op != Opcode::call_function) continue;
    const Node* old = id.value < text.nodes.size() ? text.nodes[id.value].node.get() : nullptr;
    if (old && old->type && old->type != node.type && old->type->strides != node.type->strides)
      changed[id] = node.type;
    const NodeId* input = node.args.empty() ? nullptr : node.args[0].get<NodeId>();
    const auto from = input ? changed.find(*input) : changed.end();
    if (from == changed.end() || changed.count(id)) continue;
    try {
      const auto in = example(*from->second);
      const auto out = in ? view_of(*in, book::name_of_call(model, node), node) : std::nullopt;
      if (!out || out->dim() != static_cast<std::int64_t>(node.type->sizes.size())) continue;
      if (TypePtr type = with_strides(node.type, out->strides()); type != node.type)
        types[id] = changed[id] = type;
    } catch (const c10::Error&) {
      // Not a view of these strides after all: then it is a copy, and contiguous as before.
    }
  }
  return types;
}

}  // namespace refx
