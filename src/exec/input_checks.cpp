// SPDX-License-Identifier: Apache-2.0

#include "exec/input_checks.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>

#include "refx/error.h"
#include "refx/source.h"
#include "refx/text.h"
#include "util/size_expression.h"

namespace refx {

using c10::IValue;

std::string kind_name(const IValue& value) {
  if (value.isNone()) return "None";
  if (value.isTensor()) return "a tensor";
  if (value.isBool()) return "a bool";
  if (value.isInt()) return "an int";
  if (value.isDouble()) return "a float";
  if (value.isString()) return "a string";
  if (value.isTuple()) return fmt::format("a tuple of {}", value.toTupleRef().size());
  if (value.isList()) return fmt::format("a list of {}", value.toListRef().size());
  if (value.isGenericDict()) return fmt::format("a dict of {}", value.toGenericDict().size());
  return value.tagKind();
}

namespace exec {
namespace {

bool is_tensor(const IValue& value) { return value.isTensor() && value.toTensor().defined(); }

std::int64_t size_of(const std::vector<IValue>& inputs, std::size_t input, std::size_t dim) {
  return inputs[input].toTensor().size(static_cast<std::int64_t>(dim));
}

}  // namespace

InputChecks::InputChecks(const Model& model) {
  const auto size = [&](const Dim& dim) {
    if (dim.known()) return Size{dim.value, dim.value};
    Size range;
    if (!model.source()) return range;
    const auto it = model.source()->ranges().find(dim.expr);
    if (it == model.source()->ranges().end()) return range;
    return Size{it->second.min.value_or(range.min), it->second.max.value_or(range.max)};
  };
  for (NodeId id : model.graph()) {
    const Node& node = model.graph()[id];
    if (node.op != Opcode::placeholder || !node.state.empty()) continue;
    Input& input = inputs_.emplace_back(Input{node.name, node.type, {}});
    if (!node.type) continue;
    for (const Dim& dim : node.type->sizes) {
      const Dimension here{inputs_.size() - 1, input.sizes.size()};
      input.sizes.push_back(size(dim));
      if (dim.known()) continue;
      if (!is_symbol(dim.expr)) {
        computed_.push_back({here, dim.expr});
        continue;
      }
      const auto known = std::find_if(symbols_.begin(), symbols_.end(),
                                      [&](const auto& one) { return one.first == dim.expr; });
      if (known == symbols_.end())
        symbols_.emplace_back(dim.expr, here);
      else
        equal_.push_back({known->second, here});
    }
  }
}

bool InputChecks::fits(const Input& input, const IValue& value) const {
  if (!input.type) return true;
  if (!is_tensor(value)) return false;
  const at::Tensor& tensor = value.toTensor();
  if (tensor.scalar_type() != input.type->dtype) return false;
  const c10::IntArrayRef sizes = tensor.sizes();
  if (sizes.size() != input.sizes.size()) return false;
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] < input.sizes[d].min || sizes[d] > input.sizes[d].max) return false;
  return true;
}

std::string InputChecks::mismatch(std::size_t i, const IValue& value) const {
  const Input& input = inputs_[i];
  if (fits(input, value)) return "";
  const std::string wanted = print(*input.type);
  if (!is_tensor(value))
    return fmt::format(" should be a tensor, {}, not {}", wanted,
                       value.isTensor() ? "an undefined one" : kind_name(value));
  const at::Tensor& tensor = value.toTensor();
  const std::string all = fmt::format("should be {}, not {}", wanted, print(*type_of(tensor)));
  if (tensor.scalar_type() != input.type->dtype || tensor.sizes().size() != input.sizes.size())
    return " " + all;
  const auto& sizes = input.sizes;
  std::size_t d = 0;
  while (tensor.sizes()[d] >= sizes[d].min && tensor.sizes()[d] <= sizes[d].max) ++d;
  const std::int64_t is = tensor.sizes()[d];
  const std::string bound = sizes[d].min == sizes[d].max ? fmt::format("not {}", sizes[d].min)
                            : is < sizes[d].min          ? fmt::format("at least {}", sizes[d].min)
                                                         : fmt::format("at most {}", sizes[d].max);
  return fmt::format(", dimension {} is {}, {}: it {}", d, is, bound, all);
}

void InputChecks::check(const std::vector<IValue>& inputs) const {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!fits(inputs_[i], inputs[i])) [[unlikely]]
      throw Error("input '" + inputs_[i].name + "'" + mismatch(i, inputs[i]));
  if (!equal_.empty() || !computed_.empty()) check_symbols(inputs);
}

std::string InputChecks::where(const Dimension& at) const {
  return fmt::format("input '{}', dimension {}", inputs_[at.input].name, at.dim);
}

void InputChecks::check_symbols(const std::vector<IValue>& inputs) const {
  for (const auto& [first, second] : equal_) {
    const std::int64_t a = size_of(inputs, first.input, first.dim);
    const std::int64_t b = size_of(inputs, second.input, second.dim);
    if (a != b)
      throw Error(fmt::format("{} is {}, not {}: it has to be equal to {}", where(second), b, a,
                              where(first)));
  }
  if (computed_.empty()) return;
  std::map<std::string, std::int64_t> values;
  for (const auto& [symbol, from] : symbols_)
    values[symbol] = size_of(inputs, from.input, from.dim);
  for (const auto& [of, expression] : computed_) {
    const auto wanted = evaluate_size(expression, values);
    const std::int64_t is = size_of(inputs, of.input, of.dim);
    if (wanted && *wanted != is)
      throw Error(
          fmt::format("{} is {}, not {}: it has to be {}", where(of), is, *wanted, expression));
  }
}

}  // namespace exec
}  // namespace refx
