// SPDX-License-Identifier: Apache-2.0

#include "io/generate.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "book/call.h"
#include "book/facts.h"
#include "io/placeholders.h"
#include "ops/param.h"
#include "refx/error.h"
#include "refx/inputs.h"
#include "refx/source.h"
#include "util/limits.h"
#include "util/size_expression.h"

namespace refx {

namespace {

using c10::IValue;
using Sizes = std::map<std::string, std::int64_t>;

// The size of a symbol without a hint. Not 0 or 1, which broadcasting treats specially, and small.
constexpr std::int64_t kUnknownSize = 3;

// ---- sizes -------------------------------------------------------------------------------------

// The hint; a short one; a long one; then longer ones.
std::int64_t choose(std::int64_t hint, Bounds bounds, int variation) {
  const auto clamp = [&](std::int64_t size) { return std::clamp(size, bounds.min, bounds.max); };
  if (hint < 0) hint = kUnknownSize;
  if (variation == 0) return clamp(hint);
  if (variation == 1)
    return clamp(hint > 2 ? hint - std::max<std::int64_t>(1, hint / 3) : hint + 2);
  return clamp(std::min(hint, std::numeric_limits<std::int64_t>::max() / 4) * 3 / 2 + variation);
}

// One value for every symbol that is the size of an input, used wherever the symbol appears.
Sizes symbol_sizes(const Model& model, int variation) {
  Sizes sizes;
  for (NodeId id : user_placeholders(model)) {
    const TypePtr& type = model.graph()[id].type;
    if (!type) continue;
    for (const Dim& dim : type->sizes)
      if (!dim.known() && is_symbol(dim.expr) && !sizes.count(dim.expr))
        sizes[dim.expr] = choose(dim.value, bounds_of(model, dim.expr), variation);
  }
  return sizes;
}

void set_batch(const Model& model, Sizes& symbols, std::int64_t batch) {
  bool found = false;
  for (NodeId id : user_placeholders(model)) {
    const TypePtr& type = model.graph()[id].type;
    if (!type || type->sizes.empty()) continue;
    const Dim& first = type->sizes.front();
    if (first.known() || !is_symbol(first.expr)) continue;
    const Bounds bounds = bounds_of(model, first.expr);
    if (batch < bounds.min || batch > bounds.max)
      throw Error(fmt::format("a batch of {} is not in the range of '{}': {} to {}", batch,
                              model.graph()[id].name, bounds.min, bounds.max));
    symbols[first.expr] = batch;
    found = true;
  }
  if (!found)
    throw Error(
        "no input has a dynamic first dimension to be the batch: export the model with "
        "dynamic_shapes, or give inputs of that size");
}

std::vector<std::int64_t> concrete(const std::vector<Dim>& dims, const Sizes& symbols) {
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : dims) {
    std::int64_t size = dim.value;
    if (!dim.known())
      if (const auto value = evaluate_size(dim.expr, symbols)) size = *value;
    sizes.push_back(size < 0 ? kUnknownSize : size);
  }
  return sizes;
}

// Throws Error if a tensor of these sizes and the ones before it exceed the limit on generated
// inputs.
void take_memory(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides,
                 std::uint64_t& left) {
  // Counts both the numbers that are drawn and the memory of the tensor, which may have gaps.
  std::uint64_t drawn = 1, extent = 1;
  bool fits = true, empty = false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto size = static_cast<std::uint64_t>(sizes[i]);
    const auto stride = i < strides.size() ? static_cast<std::uint64_t>(strides[i]) : 0;
    std::uint64_t reach = 0;
    empty |= size == 0;
    fits = fits && !__builtin_mul_overflow(drawn, std::max<std::uint64_t>(size, 1), &drawn) &&
           !__builtin_mul_overflow(std::max<std::uint64_t>(size, 1) - 1, stride, &reach) &&
           !__builtin_add_overflow(extent, reach, &extent);
  }
  constexpr std::uint64_t kElement = 16;
  const std::uint64_t elements = empty ? 0 : std::max(drawn, extent);
  if (!fits || elements > left / kElement)
    throw Error(fmt::format("generated inputs would take more than {} bytes: give inputs",
                            limits::kGeneratedBytes));
  left -= elements * kElement;
}

// ---- indices -----------------------------------------------------------------------------------

// The rows of the table in which this node looks up `index`; none if it looks up something else.
std::optional<std::int64_t> table_rows(const Model& model, const Node& node, NodeId index) {
  const book::Call call(model, node);
  if (!call.is("embedding") && !call.is("embedding_bag")) return std::nullopt;
  if (call.value("indices") != index) return std::nullopt;
  StateId table = call.tensor("weight");
  if (const auto weight = call.argument("weight"))
    if (const auto stored = param_of(model, &*weight)) table = stored->state;
  return table ? std::optional(model.state().tensor(table).size(0)) : std::nullopt;
}

void find_tables(const Model& model, NodeId index, int depth, std::optional<std::int64_t>& rows) {
  if (depth == 8) return;
  for (NodeId id : model.graph().users(index)) {
    const Node& user = model.graph()[id];
    if (const auto here = table_rows(model, user, index))
      rows = std::min(rows.value_or(*here), *here);
    const Arg* first = argument(user, 0, "self");
    const bool is_first = first && first->get<NodeId>() && *first->get<NodeId>() == index;
    if (is_first && (book::Call(model, user).facts() & book::kKeepsIndices))
      find_tables(model, id, depth + 1, rows);
  }
}

// ---- values ------------------------------------------------------------------------------------

// Properties of a sample input that generated inputs share.
struct Like {
  double mean = 0, deviation = 1;    // of floating-point numbers
  std::int64_t least = 0, most = 0;  // of integers
  bool is_mask = false;              // nothing but 0 and 1
  bool counts = false;               // each row is n, n+1, n+2 …
  bool repeats = false;              // all elements are equal, and there are several
};

std::optional<Like> like(const std::vector<IValue>& samples, std::size_t i) {
  if (i >= samples.size() || !samples[i].isTensor()) return std::nullopt;
  const at::Tensor sample = samples[i].toTensor().detach().cpu();
  if (sample.numel() == 0 || sample.is_complex() || sample.layout() != c10::kStrided)
    return std::nullopt;
  Like like;
  const at::Tensor values = sample.to(at::kDouble);
  like.is_mask = values.eq(0).logical_or(values.eq(1)).all().item<bool>();
  if (sample.is_floating_point()) {
    if (!at::isfinite(values).all().item<bool>() || values.numel() < 2) return like;
    const double deviation = values.std().item<double>();
    if (deviation > 0) like.mean = values.mean().item<double>(), like.deviation = deviation;
    if (like.is_mask && deviation == 0) like.is_mask = values.min().item<double>() == 1;
  } else if (sample.scalar_type() != at::kBool) {
    like.least = sample.min().item<std::int64_t>();
    like.most = sample.max().item<std::int64_t>();
    like.repeats = like.least == like.most && sample.numel() > 1;
    like.counts = sample.dim() > 0 && sample.size(-1) > 2 && sample.diff().eq(1).all().item<bool>();
  }
  return like;
}

// Each row begins with ones and ends with zeros, like tokens followed by padding. No row is all
// zeros, since attention that masks every key yields NaN. Rows have both values if they have two
// elements or more.
at::Tensor mask_values(const std::vector<std::int64_t>& sizes, at::Generator& generator) {
  if (sizes.empty() || sizes.back() < 2) return at::ones(sizes, at::kLong);
  const std::int64_t length = sizes.back();
  std::vector<std::int64_t> rows(sizes.begin(), sizes.end() - 1);
  rows.push_back(1);
  at::Tensor ones = at::randint(1, length + 1, rows, generator, at::kLong);
  if (ones.numel() > 0) {
    ones.view(-1)[0] = length;
    ones.view(-1)[-1] = std::max<std::int64_t>(1, length - 1 - length / 3);
  }
  return at::arange(length, at::kLong).lt(ones).to(at::kLong);
}

at::Tensor whole_numbers(const Model& model, NodeId id, const std::vector<std::int64_t>& sizes,
                         const std::optional<Like>& like, at::Generator& generator) {
  const c10::ScalarType dtype = model.graph()[id].type->dtype;
  std::optional<std::int64_t> rows;
  if (dtype != at::kBool) rows = smallest_table(model, id);
  if (rows) return at::randint(0, std::max<std::int64_t>(1, *rows), sizes, generator, at::kLong);
  if (!like || like->is_mask || dtype == at::kBool) return mask_values(sizes, generator);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (like->counts && !sizes.empty() && like->least <= kMost - sizes.back())
    return at::arange(like->least, like->least + sizes.back(), at::kLong).expand(sizes).clone();
  return at::randint(like->least, std::min(like->most, kMost - 1) + 1, sizes, generator, at::kLong);
}

at::Tensor random_values(const Model& model, NodeId id, const std::vector<std::int64_t>& sizes,
                         const std::optional<Like>& like, at::Generator& generator) {
  const c10::ScalarType dtype = model.graph()[id].type->dtype;
  if (at::isComplexType(dtype)) return at::randn(sizes, generator, at::kComplexDouble).to(dtype);
  if (!at::isFloatingType(dtype)) return whole_numbers(model, id, sizes, like, generator).to(dtype);
  if (like && like->is_mask) return mask_values(sizes, generator).to(dtype);
  const at::Tensor normal = at::randn(sizes, generator, at::kDouble);
  return (like ? normal * like->deviation + like->mean : normal).to(dtype);
}

std::vector<IValue> samples_of(const Model& model) {
  try {
    return sample_inputs(model).value_or(std::vector<IValue>());
  } catch (const Error&) {  // the sample inputs contain types that cannot be read
    return {};
  }
}

// Positions start at the same number as those of the sample.
at::Tensor position_values(const std::vector<std::int64_t>& sizes,
                           const std::optional<Like>& like) {
  const std::int64_t first = like ? like->least : 0, length = sizes.empty() ? 1 : sizes.back();
  const bool for_each_row = like && like->repeats;  // of a batch, not for each token
  if (sizes.empty() || for_each_row) return at::full(sizes, first, at::kLong);
  return at::arange(first, first + length, at::kLong).expand(sizes).clone();
}

IValue generated(const Model& model, NodeId id, InputRole role, const Sizes& symbols,
                 const std::optional<Like>& like, at::Generator& generator, std::uint64_t& left) {
  const Node& node = model.graph()[id];
  if (!node.type) {
    if (model.graph().num_users(id) == 0) return {};
    throw Error(fmt::format("input '{}' has no known type, so none can be generated: give inputs",
                            node.name));
  }
  const TensorType& type = *node.type;
  try {
    const auto sizes = concrete(type.sizes, symbols);
    const bool fixed = std::all_of(type.sizes.begin(), type.sizes.end(),
                                   [](const Dim& dim) { return dim.known(); });
    std::vector<std::int64_t> strides;
    if (fixed) strides = concrete(type.strides, symbols);
    take_memory(sizes, strides, left);
    auto own = sizes;  // without dimensions that repeat the same elements
    for (std::size_t i = 0; i < strides.size(); ++i)
      if (strides[i] == 0) own[i] = std::min<std::int64_t>(own[i], 1);
    at::Tensor tensor = role == InputRole::position
                            ? position_values(own, like).to(type.dtype)
                            : random_values(model, id, own, like, generator);
    if (!strides.empty())
      tensor = at::empty_strided(own, strides, tensor.options()).copy_(tensor).expand(sizes);
    return tensor.to(type.device);
  } catch (const c10::Error& error) {
    throw Error(fmt::format("input '{}' cannot be generated: {}", node.name,
                            error.what_without_backtrace()));
  }
}

}  // namespace

std::vector<IValue> generated_inputs(const Model& model, std::uint64_t seed, int variation,
                                     std::int64_t batch) {
  at::Generator generator =
      at::detail::createCPUGenerator(seed + static_cast<std::uint64_t>(variation));
  Sizes symbols = symbol_sizes(model, variation);
  if (batch > 0) set_batch(model, symbols, batch);
  const std::vector<IValue> samples = samples_of(model);
  std::vector<IValue> inputs;
  std::uint64_t left = limits::kGeneratedBytes;
  const std::vector<InputRole> roles = input_roles(model);
  for (NodeId id : user_placeholders(model)) {
    const std::size_t i = inputs.size();
    inputs.push_back(generated(model, id, roles[i], symbols, like(samples, i), generator, left));
  }
  return inputs;
}

Bounds bounds_of(const Model& model, const std::string& symbol) {
  Bounds bounds{0, std::numeric_limits<std::int64_t>::max()};
  if (!model.source()) return bounds;
  const auto it = model.source()->ranges().find(symbol);
  if (it == model.source()->ranges().end()) return bounds;
  bounds.min = std::max<std::int64_t>(0, it->second.min.value_or(0));
  bounds.max = std::max(bounds.min, it->second.max.value_or(bounds.max));
  return bounds;
}

std::optional<std::int64_t> smallest_table(const Model& model, NodeId input) {
  std::optional<std::int64_t> rows;
  find_tables(model, input, 0, rows);
  return rows;
}

bool has_symbolic_inputs(const Model& model) { return !symbol_sizes(model, 0).empty(); }

}  // namespace refx
