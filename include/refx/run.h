#pragma once

#include <ATen/core/ivalue.h>

#include <string>

#include "refx/export.h"
#include "refx/measure.h"

namespace refx {

// What one run gave.
struct RunResult {
  c10::IValue output;   // nested as in Python
  std::string inputs;   // where they come from
  bool random = false;  // it has drawn random numbers
};
// Runs the model once, on copies of the inputs and of the state that it writes. Leaves the global
// random state and the number of threads as they were.
REFX_API RunResult run_on_copies(const Model& model, const Measure& measure = {});

}  // namespace refx
