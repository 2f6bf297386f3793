// SPDX-License-Identifier: Apache-2.0

#include "ops/views.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "book/result_types.h"
#include "ops/batch_norm.h"
#include "ops/div.h"
#include "ops/layer.h"
#include "ops/no_op.h"
#include "ops/param.h"
#include "ops/writes.h"
#include "refx/error.h"

namespace refx::testing {

namespace {

NodeId find(const Model& model, std::string_view name) {
  const NodeId id = model.graph().find(name);
  if (!id) throw Error(fmt::format("there is no node '{}'", name));
  return id;
}

std::string name_of(const Model& model, NodeId id) { return id ? model.graph()[id].name : "?"; }
std::string name_of(const Model& model, const Param& param) {
  return param.state ? model.state()[param.state].name : "?";
}

std::string with_problem(const std::string& text, const std::optional<Reason>& problem) {
  return problem ? text + ": " + to_string(*problem) : text;
}

std::string layer_text(const Model& model, const Layer& layer, const std::string& before) {
  const std::string bias = layer.bias ? " + " + name_of(model, *layer.bias) : "";
  return with_problem(fmt::format("{}{} * {}{}", before, name_of(model, layer.input),
                                  name_of(model, layer.weight), bias),
                      layer.problem);
}

}  // namespace

std::string name_in(const Model& model, std::string_view node) {
  return std::string(book::shown_name(model, model.graph()[find(model, node)]));
}

std::string linear_in(const Model& model, std::string_view node) {
  const auto linear = LinearOp::match(model, find(model, node));
  return linear ? layer_text(model, *linear, "") : "no";
}

std::string convolution_in(const Model& model, std::string_view node) {
  const auto conv = ConvOp::match(model, find(model, node));
  if (!conv) return "no";
  const std::string groups = conv->groups == 1 ? "" : fmt::format("groups {} ", conv->groups);
  const std::string dims = conv->dims == 2 ? "" : fmt::format("{}d ", conv->dims);
  return layer_text(model, *conv, dims + (conv->transposed ? "transposed " : "") + groups);
}

std::string norm_in(const Model& model, std::string_view node) {
  const auto norm = BatchNormOp::match(model, find(model, node));
  if (!norm) return "no";
  std::string text = fmt::format("{} by {} {}", name_of(model, norm->input),
                                 name_of(model, norm->mean), name_of(model, norm->var));
  for (const auto& param : {norm->weight, norm->bias})
    text += param ? " " + name_of(model, *param) : " none";
  return with_problem(fmt::format("{} eps {}", text, norm->eps), norm->problem);
}

std::string division_in(const Model& model, std::string_view node) {
  const auto div = DivOp::match(model, find(model, node));
  if (!div) return "no";
  const std::string divisor = div->tensor   ? name_of(model, *div->tensor)
                              : div->number ? fmt::format("{}", *div->number)
                                            : "?";
  return with_problem(fmt::format("{} / {}", name_of(model, div->input), divisor), div->problem);
}

std::string multiplication_for(const Model& model, std::string_view node) {
  const auto div = DivOp::match(model, find(model, node));
  return div ? div->as_multiplication(model, 0.5).target : "no";
}

std::string effect_in(const Model& model, std::string_view node) {
  const book::Effect effect = book::effect_of(model, model.graph()[find(model, node)]);
  std::string text;
  const auto add = [&](bool holds, const char* what) {
    if (holds) text += (text.empty() ? "" : ", ") + std::string(what);
  };
  add(effect.views, "views");
  add(effect.writes_first, "writes its first");
  add(effect.writes_all, "writes any");
  return text.empty() ? "pure" : text;
}

bool written_between(const Model& model, std::string_view value, std::string_view first,
                     std::string_view last) {
  return Writes(model).between(find(model, value), find(model, first), find(model, last));
}

bool column_slice_will_do(const Model& model, std::string_view value, std::int64_t width) {
  return tolerates_column_slice(model, find(model, value), width);
}

bool may_be_integer_in(const Model& model, std::string_view node) {
  return book::may_be_integer(model, find(model, node));
}

std::string rank_in(const Model& model, std::string_view node) {
  const auto rank = book::known_rank(model, find(model, node));
  return rank ? std::to_string(*rank) : "?";
}

std::string dtype_in(const Model& model, std::string_view node) {
  const auto dtype = book::known_dtype(model, find(model, node));
  return dtype ? c10::toString(*dtype) : "?";
}

std::string no_op_in(const Model& model, std::string_view node) {
  return name_of(model, no_op_input(model, find(model, node)));
}

std::string param_in(const Model& model, std::string_view node) {
  const Arg arg = find(model, node);
  const auto param = param_of(model, &arg);
  if (!param)
    return is_graph_input(model, &arg) ? "is an input, not stored" : "is computed, not stored";
  std::optional<Reason> problem = why_shared(model, *param);
  if (!problem) problem = why_not_readable(model, *param);
  return with_problem(name_of(model, *param), problem);
}

}  // namespace refx::testing
