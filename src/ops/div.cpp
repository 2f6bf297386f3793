#include "ops/div.h"

#include <algorithm>

#include "ops/inference.h"

namespace refx {

namespace {

bool is_division(const Node& node, std::string_view name) {
  if (node.op == Opcode::call_method)
    return name == "div" || name == "true_divide" || name == "divide" || name == "__truediv__";
  if (node.op != Opcode::call_function) return false;
  if (node.target == "operator.truediv") return true;
  if (node.target.starts_with("operator.")) return false;
  return name == "div" || name == "true_divide" || name == "divide";
}

bool is_in_place_division(const Node& node, std::string_view name) {
  if (node.op == Opcode::call_method)
    return name == "div_" || name == "true_divide_" || name == "divide_" || name == "__itruediv__";
  if (node.op != Opcode::call_function) return false;
  return node.target == "operator.itruediv" || name == "div_" || name == "true_divide_" ||
         name == "divide_";
}

std::string why_not_true_division(const Model& model, const Node& node, const DivOp& div) {
  if (const Arg* mode = argument(node, 2, "rounding_mode"); mode && !mode->is<None>())
    return "it rounds its result";
  if (const Arg* out = argument(node, 3, "out"); out && !out->is<None>())
    return "it writes into a given tensor";
  if (may_be_integer(model, div.input)) return "it divides integers";
  return "";
}

}  // namespace

std::optional<DivOp> DivOp::match(const Model& model, NodeId id) {
  const Node& node = model.graph()[id];
  if (node.op != Opcode::call_function && node.op != Opcode::call_method) return std::nullopt;
  const std::string_view name = operator_name(model, node);
  DivOp div;
  div.node = id;
  if (is_in_place_division(node, name)) {
    div.problem = "it divides in place";
    return div;
  }
  if (!is_division(node, name)) return std::nullopt;

  const Arg* input = argument(node, 0, "input");
  if (!input) input = argument(node, 0, "self");
  const Arg* divisor = argument(node, 1, "other");
  if (!divisor) return std::nullopt;
  if (!input || !input->is<NodeId>()) {
    div.problem = "the dividend is not a tensor";
    return div;
  }
  div.input = *input->get<NodeId>();
  if (const auto* number = divisor->get<double>()) div.number = *number;
  if (const auto* number = divisor->get<std::int64_t>()) div.number = static_cast<double>(*number);
  div.tensor = param_of(model, divisor);
  if (!div.number && !div.tensor)
    div.problem = divisor->is<NodeId>() ? "the divisor is computed, not constant"
                                        : "the divisor is not a real number";
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
  } else if (result.target == "operator.truediv") {
    result.target = "operator.mul";
  } else if (const auto parts = operator_target(result.target)) {
    const bool scalar = parts->overload.starts_with("Scalar");
    result.target = scalar ? "aten.mul.Scalar" : "aten.mul.Tensor";
  } else {
    result.target = "torch.mul";
  }
  return result;
}

}  // namespace refx
