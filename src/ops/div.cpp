// SPDX-License-Identifier: Apache-2.0

#include "ops/div.h"

#include "book/call.h"
#include "book/result_types.h"

namespace refx {

namespace {

std::optional<Reason> why_not_true_division(const Model& model, const Node& node,
                                            const DivOp& div) {
  if (const Arg* mode = argument(node, 2, "rounding_mode"); mode && !mode->is<None>())
    return because<ReasonId::rounds_result>();
  if (const Arg* out = argument(node, 3, "out"); out && !out->is<None>())
    return because<ReasonId::writes_given_tensor>();
  if (book::may_be_integer(model, div.input)) return because<ReasonId::divides_integers>();
  return std::nullopt;
}

}  // namespace

std::optional<DivOp> DivOp::match(const Model& model, NodeId id) {
  const Node& node = model.graph()[id];
  const book::Call call(model, node);
  DivOp div;
  div.node = id;
  if (call.is("div_")) {
    div.problem = because<ReasonId::divides_in_place>();
    return div;
  }
  if (!call.is("div")) return std::nullopt;

  const auto divisor = call.argument("other");
  if (!divisor) return std::nullopt;
  div.input = call.value("self");
  if (!div.input) {
    div.problem = because<ReasonId::dividend_not_tensor>();
    return div;
  }
  if (const auto* number = divisor->get<double>()) div.number = *number;
  if (const auto* number = divisor->get<std::int64_t>()) div.number = static_cast<double>(*number);
  div.tensor = param_of(model, &*divisor);
  if (!div.number && !div.tensor)
    div.problem = divisor->is<NodeId>() ? because<ReasonId::divisor_is_computed>()
                                        : because<ReasonId::divisor_not_real>();
  else
    div.problem = why_not_true_division(model, node, div);
  return div;
}

Node DivOp::as_multiplication(const Model& model, Arg factor) const {
  Node result = model.graph()[node];
  result.args = {input, std::move(factor)};
  result.kwargs.clear();
  if (result.op == Opcode::call_method) {
    result.target = "mul";
  } else if (const auto target = book::parse_target(result.target); target.is_op()) {
    // An overload for the same kind of operand, as torch.export would have written it.
    result.target = target.overload.starts_with("Scalar") ? "aten.mul.Scalar" : "aten.mul.Tensor";
  } else {
    result.target = target.kind == book::Target::Kind::python ? "operator.mul" : "torch.mul";
  }
  return result;
}

}  // namespace refx
