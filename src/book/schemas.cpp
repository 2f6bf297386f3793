// SPDX-License-Identifier: Apache-2.0

#include "book/schemas.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "util/did_you_mean.h"

namespace refx::book {

namespace {

using c10::OperatorHandle;

bool has_out(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(),
                     [](const c10::Argument& a) { return a.is_out(); });
}

// Dimensions by name ("Dimname", "names_dim") look like strings to a schema; nobody exports them.
bool takes_dimension_names(const c10::OperatorName& op) {
  return op.overload_name.find("imname") != std::string::npos ||
         op.overload_name.rfind("names", 0) == 0;
}

using Index = std::map<std::string, std::vector<OperatorHandle>, std::less<>>;

// Sorted by overload name, so that the choice among equals never depends on registration order.
const Index& aten_index() {
  static const Index index = [] {
    Index all;
    auto& dispatcher = c10::Dispatcher::singleton();
    auto names = dispatcher.getAllOpNames();
    std::sort(names.begin(), names.end(), [](const auto& a, const auto& b) {
      return std::tie(a.name, a.overload_name) < std::tie(b.name, b.overload_name);
    });
    for (const auto& name : names) {
      if (name.name.rfind("aten::", 0) != 0 || takes_dimension_names(name)) continue;
      auto op = dispatcher.findSchema(name);
      if (op && !has_out(op->schema())) all[name.name.substr(6)].push_back(*op);
    }
    return all;
  }();
  return index;
}

// Operators that a library registers from Python and that exported programs call. A process without
// that library finds no schema for them in the dispatcher.
const c10::FunctionSchema* find_python_operator(const c10::OperatorName& name) {
  static const std::vector<c10::FunctionSchema> all = {torch::jit::parseSchema(
      "transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor")};
  const auto it = std::find_if(all.begin(), all.end(), [&](const c10::FunctionSchema& schema) {
    return schema.operator_name() == name;
  });
  return it == all.end() ? nullptr : &*it;
}

}  // namespace

const c10::FunctionSchema* find_schema(const Target& target) {
  if (!target.is_op()) return nullptr;
  const c10::OperatorName name{target.qualified_name(), target.overload_name()};
  const auto handle = c10::Dispatcher::singleton().findSchema(name);
  return handle ? &handle->schema() : find_python_operator(name);
}

std::string_view aten_argument(std::string_view name) {
  if (name == "input") return "self";
  if (name == "axis") return "dim";
  if (name == "keepdims") return "keepdim";
  return name;
}

const std::vector<OperatorHandle>& overloads(std::string_view name) {
  static const std::vector<OperatorHandle> none;
  auto it = aten_index().find(name);
  return it == aten_index().end() ? none : it->second;
}

std::string nearest_operator(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [n, ops] : aten_index()) names.push_back(n);
  return nearest(name, names);
}

}  // namespace refx::book
