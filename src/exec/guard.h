// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace refx::exec {

// Some operators that exported programs need have kernels which trust an argument with memory. What
// they trust is looked at before the call: throws Error.
using Guard = void (*)(const c10::FunctionSchema&, const std::vector<c10::IValue>& arguments);
// Null for an operator that needs none.
Guard guard_of(const c10::OperatorName& op);

// Throws Error if a result is a sparse, quantized, nested or otherwise packed tensor: their kernels
// trust indices and sizes that a model can write to.
void require_dense(const std::vector<c10::IValue>& results);

}  // namespace refx::exec
