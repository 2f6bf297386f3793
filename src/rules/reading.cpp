// SPDX-License-Identifier: Apache-2.0

#include "rules/reading.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>

#include <algorithm>
#include <span>

#include "book/call.h"
#include "book/casts.h"
#include "book/facts.h"
#include "book/meanings.h"
#include "ops/param.h"
#include "rules/literal.h"

namespace refx::rules {

namespace {

using Given = Reading::Given;

Given* find(Reading& reading, std::string_view name) {
  auto it = std::find_if(reading.args.begin(), reading.args.end(),
                         [&](const Given& given) { return given.name == name; });
  return it == reading.args.end() ? nullptr : &*it;
}

// ---- other names for the same ------------------------------------------------------------------

using Integers = std::vector<std::int64_t>;

Integers integers_of(const Arg& arg) {
  Integers numbers;
  const List* list = arg.get<List>();
  const Tuple* tuple = arg.get<Tuple>();
  if (!list && !tuple) return numbers;
  for (const Arg& item : list ? list->items : tuple->items) {
    const auto* number = item.get<std::int64_t>();
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

// The two dimensions that a permutation swaps, from the end: {-2, -1}.
std::optional<std::pair<std::int64_t, std::int64_t>> swapped(Integers dims) {
  const auto rank = static_cast<std::int64_t>(dims.size());
  std::vector<std::int64_t> moved;
  for (std::int64_t i = 0; i < rank; ++i) {
    std::int64_t& dim = dims[static_cast<std::size_t>(i)];
    if (dim < 0) dim += rank;
    if (dim != i) moved.push_back(i);
  }
  const bool two = moved.size() == 2 && dims[static_cast<std::size_t>(moved[0])] == moved[1] &&
                   dims[static_cast<std::size_t>(moved[1])] == moved[0];
  if (!two) return std::nullopt;
  return std::pair(moved[0] - rank, moved[1] - rank);
}

Reading transpose(Arg of, std::int64_t a, std::int64_t b) {
  // The order of the two does not matter, and one order compares equal.
  if (a > b) std::swap(a, b);
  return {.name = "transpose", .args = {{"self", std::move(of)}, {"dim0", a}, {"dim1", b}}};
}

bool is_real(const Model& model, NodeId id) {
  const auto dtype = book::known_dtype(model, id);
  return dtype && !c10::isComplexType(*dtype);
}

// t, permute, transpose, swapaxes …: as a transpose of the dimensions counted from the end.
std::optional<Reading> as_transpose(const Model& model, const Reading& call) {
  const Given* self = call.find("self");
  if (!self || !self->value.is<NodeId>()) return std::nullopt;
  const NodeId id = *self->value.get<NodeId>();
  const auto rank = book::known_rank(model, id);
  // x.T turns all dimensions round, and a vector is its own.
  if (call.name == "numpy_T" && rank != 2) return std::nullopt;
  // t() of a vector is the vector.
  if (call.name == "t" && rank && *rank < 2) return std::nullopt;
  if (call.name == "adjoint" && !is_real(model, id)) return std::nullopt;
  if (call.name == "t" || call.name == "numpy_T" || call.name == "mT" || call.name == "adjoint")
    return transpose(self->value, -2, -1);
  if (call.name == "permute") {
    const Given* dims = call.find("dims");
    const auto pair = dims ? swapped(integers_of(dims->value)) : std::nullopt;
    if (!pair) return std::nullopt;
    return transpose(self->value, pair->first, pair->second);
  }
  const bool axes = call.name == "swapaxes";
  const Given* a = call.find(axes ? "axis0" : "dim0");
  const Given* b = call.find(axes ? "axis1" : "dim1");
  if (!a || !b || !a->value.is<std::int64_t>() || !b->value.is<std::int64_t>()) return std::nullopt;
  std::int64_t first = *a->value.get<std::int64_t>(), second = *b->value.get<std::int64_t>();
  // Without a known rank, dimensions stay as they are, and match only those written alike.
  if (rank) {
    if (first >= 0) first -= static_cast<std::int64_t>(*rank);
    if (second >= 0) second -= static_cast<std::int64_t>(*rank);
  }
  return transpose(self->value, first, second);
}

// A change of dtype and nothing else.
std::optional<Reading> as_cast(const Model& model, NodeId id, const Reading& call) {
  const Node& node = model.graph()[id];
  if (node.args.empty() || !node.args[0].is<NodeId>()) return std::nullopt;
  std::optional<c10::ScalarType> dtype;
  if (node.type) dtype = node.type->dtype;
  if (const auto cast = book::dtype_of_cast_method(call.name)) dtype = cast;
  const TypePtr& from = model.graph()[*node.args[0].get<NodeId>()].type;
  bool only = true;
  auto look = [&](const Arg& arg) {
    if (const auto* given = arg.get<c10::ScalarType>())
      dtype = *given;
    else if (const auto* device = arg.get<c10::Device>())
      // x.to(device) is a cast only where x is there already.
      only = only && from && from->device == *device;
    else if (arg.is<c10::MemoryFormat>() || arg.is<NodeId>())
      only = only && arg == Arg(c10::MemoryFormat::Preserve);
  };
  for (std::size_t i = 1; i < node.args.size(); ++i) look(node.args[i]);
  for (const auto& [key, value] : node.kwargs) look(value);
  if (!only || !dtype) return std::nullopt;
  return Reading{.name = "to", .args = {{"self", node.args[0]}, {"dtype", *dtype}}};
}

using Renaming = std::span<const book::Meaning::Argument>;

// Nothing where the call has an argument that the other operator lacks.
std::optional<Reading> renamed(const Reading& call, std::string_view name, Renaming arguments) {
  Reading other{.name = name, .args = {}};
  for (const auto& [from, to] : arguments) {
    if (from.empty()) break;
    const Given* given = call.find(from);
    if (!given) return std::nullopt;
    other.args.push_back(*given);
    other.args.back().name = to;
  }
  for (const Given& given : call.args) {
    const bool kept = std::any_of(arguments.begin(), arguments.end(), [&](const auto& argument) {
      return argument.from == given.name;
    });
    if (!kept && !given.by_default && given.name != "half_to_float") return std::nullopt;
  }
  return other;
}

std::optional<Reading> as_softmax(const Reading& call) {
  static constexpr book::Meaning::Argument kArguments[] = {{"self", "self"}, {"dim", "dim"}};
  auto other = renamed(call, "softmax", kArguments);
  const Given* to_float = call.find("half_to_float");
  if (!other || !to_float) return std::nullopt;
  const bool casts = to_float->value == Arg(true);
  other->args.push_back({"dtype", casts ? Arg(c10::ScalarType::Float) : Arg(None{}), {}, !casts});
  return other;
}

// softmax(x, dim, dtype) where x has that dtype already.
std::optional<Reading> without_own_dtype(const Model& model, Reading call) {
  const Given* self = call.find("self");
  Given* dtype = find(call, "dtype");
  if (!self || !self->value.is<NodeId>() || !dtype) return std::nullopt;
  const auto* to = dtype->value.get<c10::ScalarType>();
  if (!to || book::known_dtype(model, *self->value.get<NodeId>()) != *to) return std::nullopt;
  dtype->value = None{};
  dtype->by_default = true;
  return call;
}

std::optional<Reading> as_square(const Reading& call) {
  const Given* self = call.find("self");
  if (!self) return std::nullopt;
  if (call.name == "mul") {
    const Given* other = call.find("other");
    if (!other || !(other->value == self->value) || !self->value.is<NodeId>()) return std::nullopt;
  }
  return Reading{.name = "pow", .args = {{"self", self->value}, {"exponent", Arg(2)}}};
}

std::optional<Reading> as_power(const Reading& call, double exponent) {
  const Given* self = call.find("self");
  if (!self) return std::nullopt;
  return Reading{.name = "pow", .args = {{"self", self->value}, {"exponent", exponent}}};
}

std::optional<Reading> as_multiplication(const Model& model, const Reading& call) {
  const Given* self = call.find("self");
  const Given* other = call.find("other");
  const Given* mode = call.find("rounding_mode");
  if (!self || !other || (mode && !mode->value.is<None>())) return std::nullopt;
  std::vector<NodeId> nodes;
  const auto by = constant_number(model, other->value, nodes);
  // 1 / 0 is no factor.
  if (!by || *by == 0) return std::nullopt;
  return Reading{
      .name = "mul", .args = {{"self", self->value}, {"other", 1 / *by}}, .inverse = true};
}

// Another library's operator: its schema may be missing, so that its arguments have no names.
std::optional<Reading> by_position(const Reading& call, std::string_view name, Renaming arguments) {
  static constexpr std::string_view kPositions[] = {"0", "1", "2"};
  Reading other{.name = name, .args = {}};
  for (std::size_t i = 0; i < arguments.size() && !arguments[i].from.empty(); ++i) {
    const Given* given = call.find(kPositions[i]);
    if (!given) given = call.find(arguments[i].from);
    if (!given) return std::nullopt;
    other.args.push_back({arguments[i].to, given->value});
  }
  return other;
}

std::optional<Reading> read_as(const Model& model, NodeId id, const Reading& call,
                               const book::Meaning& meaning) {
  using Form = book::Meaning::Form;
  switch (meaning.form) {
    case Form::renamed:
      return renamed(call, meaning.means, meaning.arguments);
    case Form::positional:
      return by_position(call, meaning.means, meaning.arguments);
    case Form::transpose:
      return as_transpose(model, call);
    case Form::cast:
      return as_cast(model, id, call);
    case Form::softmax:
      return as_softmax(call);
    case Form::softmax_dtype:
      return without_own_dtype(model, call);
    case Form::square:
      return as_square(call);
    case Form::power:
      return as_power(call, meaning.exponent);
    case Form::reciprocal:
      return as_multiplication(model, call);
  }
  return std::nullopt;
}

}  // namespace

const Reading::Given* Reading::find(std::string_view name) const {
  auto it = std::find_if(args.begin(), args.end(),
                         [&](const Given& given) { return given.name == name; });
  return it == args.end() ? nullptr : &*it;
}

Reading read_call(const Model& model, NodeId id) {
  const Node& node = model.graph()[id];
  const book::Call call(model, node);
  Reading reading;
  const c10::FunctionSchema* schema = call.schema();
  if (call.spelled() == book::Call::Spelled::nothing || !schema) {
    // Somebody else's operator, or one of Python's: by position.
    if (node.op != Opcode::call_function) return reading;
    reading.name = call.name().empty() ? std::string_view(node.target) : call.name();
    static constexpr std::string_view kPositions[] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    for (std::size_t i = 0; i < node.args.size() && i < std::size(kPositions); ++i)
      reading.args.push_back({kPositions[i], node.args[i]});
    // There are no names for more positions, so that no rule matches such a call.
    if (node.args.size() > std::size(kPositions)) reading.name = {};
    for (const auto& [key, value] : node.kwargs) reading.args.push_back({key, value});
    return reading;
  }
  reading.name = book::without_underscore(call.name());
  reading.in_place = reading.name != call.name();
  for (const c10::Argument& formal : schema->arguments()) {
    Given given{formal.name(), None{}, call.tensor(formal.name())};
    if (!given.state) {
      auto value = call.argument(formal.name());
      const auto& default_value = formal.default_value();
      given.by_default = !value || (default_value && value == book::arg_of(*default_value));
      if (value) given.value = std::move(*value);
    }
    reading.args.push_back(std::move(given));
  }
  return reading;
}

std::vector<Reading> read_meanings(const Model& model, NodeId id) {
  std::vector<Reading> readings{read_call(model, id)};
  // What works in place is read as it is spelled; a division is a multiplication there, too.
  if (readings[0].name.empty() || (readings[0].in_place && readings[0].name != "div"))
    return readings;
  for (const book::Meaning& meaning : book::meanings())
    if (meaning.name == readings[0].name)
      if (auto reading = read_as(model, id, readings[0], meaning))
        readings.push_back(std::move(*reading));
  return readings;
}

TypePtr result_type(const Reading& call, const book::TypeOfArg& type_of) {
  const auto argument = [&](std::string_view name) -> const Arg* {
    const Given* given = call.find(name);
    return given ? &given->value : nullptr;
  };
  return book::result_type(call.name, argument, type_of);
}

std::optional<double> constant_number(const Model& model, const Arg& arg,
                                      std::vector<NodeId>& nodes) {
  if (const auto number = number_of(arg)) return number;
  const NodeId* id = arg.get<NodeId>();
  if (!id) return std::nullopt;
  const Reading call = read_call(model, *id);
  if (call.name == "full" || call.name == "scalar_tensor") {
    const Given* value = call.find(call.name == "full" ? "fill_value" : "s");
    const Given* size = call.find("size");
    if (size && (!size->value.is<List>() || !size->value.get<List>()->items.empty()))
      return std::nullopt;
    nodes.push_back(*id);
    return value ? number_of(value->value) : std::nullopt;
  }
  const auto param = param_of(model, &arg);
  if (!param) return std::nullopt;
  const StateEntry& entry = model.state()[param->state];
  // A parameter may be trained, and a buffer written: then its value is no constant.
  if (entry.kind == StateKind::parameter || entry.tensor.dim() != 0 ||
      entry.tensor.requires_grad() || entry.tensor.is_meta() || is_mutated(model, entry.name))
    return std::nullopt;
  if (!c10::isFloatingType(entry.tensor.scalar_type())) return std::nullopt;
  nodes.push_back(*id);
  return tensor_of(model, *param).item<double>();
}

}  // namespace refx::rules
