// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <string_view>
#include <vector>

#include "exec/program.h"

namespace refx::exec {

// An operator by its target: "aten.div.Tensor".
// Throws Error with the overloads or the nearest name.
c10::OperatorHandle find_operator(std::string_view target);

// Gives the instruction this operator: matches its operands to the schema, by position and name,
// with defaults. Throws Error if they do not fit.
void bind_operator(Instruction& instruction, const c10::OperatorHandle& op,
                   const std::vector<Operand>& args, const NamedOperands& kwargs);
// Gives it the overload of `name` that fits the values best, as Python's argument parser would.
void bind_best_overload(Instruction& instruction, const std::string& name,
                        const std::vector<Operand>& args, const NamedOperands& kwargs,
                        const Values& slots);

}  // namespace refx::exec
