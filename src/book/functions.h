// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "book/notation.h"

namespace c10 {
struct FunctionSchema;
}

namespace refx::book {

// A function of torch.nn.functional whose arguments differ from those of aten's operator.
struct Function {
  std::string op;  // aten's name for what it does
  Signature signature;
  Operation operation;
  const c10::FunctionSchema* schema =
      nullptr;  // of the operation; null if it is not an aten operator
};
// Finds a function by its name in torch.nn.functional; null if its arguments are those of the
// operator, or if it is not known.
const Function* find_function(std::string_view name);

// The function with which a graph of torch.fx calls an aten operator with the same arguments. Empty
// if only the operator itself (torch.ops.aten) is certain to accept them.
std::string_view function_spelling(std::string_view op);

}  // namespace refx::book
