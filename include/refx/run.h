// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/measure.h"

namespace refx {

// The result of one call, or of a sequence of calls.
struct RunResult {
  c10::IValue output;                     // of the last call, nested as in Python
  std::string inputs;                     // where they come from
  bool random = false;                    // the model has drawn random numbers
  std::vector<c10::IValue> outputs = {};  // of every call
  std::vector<std::pair<std::string, at::Tensor>> state =
      {};  // that the model may write, after the last call
};
// Runs the model on copies of the inputs and of the state that it writes. Restores the global
// random state and the number of threads.
REFX_API RunResult run_on_copies(const Model& model, const Measure& measure = {});

}  // namespace refx
