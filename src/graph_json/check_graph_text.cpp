// SPDX-License-Identifier: Apache-2.0

#include "graph_json/check_graph_text.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <array>
#include <vector>

#include "refx/error.h"

namespace refx {

namespace {

namespace dom = simdjson::dom;

// The kinds of arguments that name values. A subgraph has values of its own.
constexpr std::array<std::string_view, 8> kNaming = {
    "as_tensor",  "as_sym_int",  "as_sym_float",  "as_sym_bool",
    "as_tensors", "as_sym_ints", "as_sym_floats", "as_sym_bools",
};

// "tensor" for "as_tensors".
std::string_view value_kind(std::string_view kind) {
  kind.remove_prefix(3);
  if (kind.back() == 's') kind.remove_suffix(1);
  return kind;
}

// Calls f(name, kind) for each value that the argument names.
template <class F>
void for_each_value(const dom::object& arg, const F& f) {
  auto each = [&](dom::element value) {
    dom::array items;
    dom::object object;
    if (!value.get(items)) {
      for (dom::element item : items)
        if (!item.get(object)) for_each_value(object, f);
    } else if (!value.get(object)) {
      for_each_value(object, f);
    }
  };
  for (auto [kind, value] : arg) {
    if (std::find(kNaming.begin(), kNaming.end(), kind) != kNaming.end()) {
      auto name_of = [&](dom::element item) {
        std::string_view name;
        if (!item["name"].get(name) || !item["as_name"].get(name)) f(name, value_kind(kind));
      };
      dom::array items;
      if (value.get(items)) {
        name_of(value);
      } else {
        for (dom::element item : items) name_of(item);
      }
    } else if (kind == "as_optional_tensor" || kind == "as_optional_tensors") {
      each(value);
    } else if (kind == "as_string_to_argument") {
      dom::object fields;
      if (!value.get(fields))
        for (auto [key, field] : fields) each(field);
    }
  }
}

// The kinds of output that torch.export writes for a result of the type.
bool is_output_of(std::string_view kind, c10::TypePtr type) {
  if (auto optional = type->cast<c10::OptionalType>()) {
    if (kind == "as_none") return true;
    type = optional->getElementType();
  }
  switch (type->kind()) {
    case c10::TypeKind::TensorType:  // an undefined one is written as none
      return kind == "as_tensor" || kind == "as_none";
    case c10::TypeKind::ListType:
      return kind.ends_with('s');
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return kind == "as_sym_int" || kind == "as_int";
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
      return kind == "as_sym_float" || kind == "as_float";
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType:
      return kind == "as_sym_bool" || kind == "as_bool";
    case c10::TypeKind::NumberType:  // aten.item
      return kind.starts_with("as_sym_") && !kind.ends_with('s');
    default:
      return true;
  }
}

}  // namespace

void GraphTextCheck::call(std::string_view text, const c10::FunctionSchema* schema) {
  dom::parser parser;
  dom::element node;
  dom::array inputs, outputs;
  std::string_view target;
  auto fail = [&](const std::string& what) {
    throw InternalError(fmt::format("a call of '{}' is written wrong: {}", target, what));
  };
  if (parser.parse(text.data(), text.size()).get(node) || node["target"].get(target) ||
      node["inputs"].get(inputs) || node["outputs"].get(outputs))
    fail("it is not the JSON of a node");
  auto name_value = [&](std::string_view name, std::string_view kind) {
    const auto [it, added] = values_.emplace(name, kind);
    if (!added && it->second != kind)
      fail(fmt::format("'{}' is a {} here and a {} elsewhere", name, kind, it->second));
  };
  for (dom::element input : inputs) {
    dom::object arg;
    if (input["arg"].get(arg)) fail("an input has no argument");
    for_each_value(arg, name_value);
  }
  std::vector<std::string_view> kinds;
  for (dom::element output : outputs) {
    dom::object arg;
    if (output.get(arg) || arg.size() != 1) fail("an output is not of one kind");
    kinds.push_back((*arg.begin()).key);
    for_each_value(arg, [&](std::string_view name, std::string_view kind) {
      if (const auto [it, added] = makers_.emplace(name, target); !added)
        fail(fmt::format("its output '{}' is also one of '{}'", name, it->second));
      name_value(name, kind);
    });
  }
  if (!schema) return;
  const auto& returns = schema->returns();
  if (kinds.size() != returns.size())
    fail(fmt::format("it has {} outputs, and its schema {}", kinds.size(), returns.size()));
  for (std::size_t i = 0; i < returns.size(); ++i)
    if (!is_output_of(kinds[i], returns[i].real_type()))
      fail(fmt::format("output {} is written as '{}', and its type is {}", i, kinds[i],
                       returns[i].real_type()->str()));
}

}  // namespace refx
