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

// A leaf module of torch.nn: its hyper-parameters with torch.nn's names and defaults, and the aten
// operator that it calls. Its tensors are the state entries under the module's path.
struct LayerFacts {
  std::string type;                             // "torch.nn.Linear"
  std::string op;                               // aten's name for what it does: "linear"
  Signature parameters;                         // hyper-parameters
  Signature inputs;                             // the arguments of a call
  Operation operation;                          // over both, and `training`
  const c10::FunctionSchema* schema = nullptr;  // of the operation; null if it is none of aten\'s
  bool rewritten = false;  // a transformation looks for it, and gives a reason where it refuses
};

// Finds a layer by its type or by its full path ("torch.nn.modules.linear.Linear"); null if the
// book does not have it.
const LayerFacts* find_layer(std::string_view type);

}  // namespace refx::book
