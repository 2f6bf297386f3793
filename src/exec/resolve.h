#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <string_view>
#include <vector>

#include "exec/program.h"

namespace refx::exec {

// "aten.div.Tensor" or "torch.ops.aten.div.Tensor"; no value if it is not spelled like that.
struct OperatorSpelling {
  std::string name, overload;  // "aten::div", "Tensor"
};
std::optional<OperatorSpelling> parse_operator(std::string_view target);
// Throws Error with the overloads or the nearest name.
c10::OperatorHandle find_operator(std::string_view target);

// The functional and in-place overloads of "aten::<name>", in a fixed order; empty if unknown.
const std::vector<c10::OperatorHandle>& overloads(const std::string& name);
// Operator names of aten near to this one, for messages.
std::string nearest_operator(std::string_view name);

// Gives the instruction this operator: matches its operands to the schema, by position and name,
// with defaults. Throws Error if they do not fit.
void bind_operator(Instruction& instruction, const c10::OperatorHandle& op,
                   const std::vector<Operand>& args, const NamedOperands& kwargs);
// Gives it the overload of `name` that fits the values best, as Python's argument parser would.
void bind_best_overload(Instruction& instruction, const std::string& name,
                        const std::vector<Operand>& args, const NamedOperands& kwargs,
                        const Values& slots);

}  // namespace refx::exec
