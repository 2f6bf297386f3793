// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "book/notation.h"

namespace c10 {
struct FunctionSchema;
}

namespace refx::book {

// A leaf module of torch.nn: its hyper-parameters by torch.nn's names with their defaults, and what
// operator of aten it is. Its tensors are the state entries under the module's path.
struct Layer {
  std::string type;                             // "torch.nn.Linear"
  std::string op;                               // aten's name for what it does: "linear"
  Signature parameters;                         // hyper-parameters
  Signature inputs;                             // what it is called with
  Operation operation;                          // over both, and `training`
  const c10::FunctionSchema* schema = nullptr;  // of the operation; null if it is none of aten\'s
  bool rewritten = false;  // transformations look for it: why one is left alone is worth a reason
};

// By type, also by where torch keeps it ("torch.nn.modules.linear.Linear"); null if there is none.
const Layer* find_layer(std::string_view type);

}  // namespace refx::book
