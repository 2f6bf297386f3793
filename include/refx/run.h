// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/measure.h"

namespace refx {

// What a run gave: one call, or a sequence of them.
struct RunResult {
  c10::IValue output;                     // of the last call, nested as in Python
  std::string inputs;                     // where they come from
  bool random = false;                    // it has drawn random numbers
  std::vector<c10::IValue> outputs = {};  // of every call
  std::vector<std::pair<std::string, at::Tensor>> state = {};  // that it may write, at the end
};
// Runs the model on copies of the inputs and of the state that it writes. Leaves the global random
// state and the number of threads as they were.
REFX_API RunResult run_on_copies(const Model& model, const Measure& measure = {});

}  // namespace refx
