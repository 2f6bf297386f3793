// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "book/notation.h"

namespace c10 {
struct FunctionSchema;
}

namespace refx::book {

// A function of torch.nn.functional that takes other arguments than aten's operator of that name.
struct Function {
  std::string op;  // aten's name for what it does
  Signature signature;
  Operation operation;
  const c10::FunctionSchema* schema = nullptr;  // of the operation; null if it is none of aten's
};
// By its name in torch.nn.functional; null where its arguments are the operator's, or it is not
// known.
const Function* find_function(std::string_view name);

// How a graph of torch.fx calls an operator of aten, with the same arguments; empty where only the
// operator itself (torch.ops.aten) is sure to take them.
std::string_view function_spelling(std::string_view op);

}  // namespace refx::book
