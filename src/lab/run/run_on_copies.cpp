// SPDX-License-Identifier: Apache-2.0

#include "lab/run/run_once.h"
#include "lab/run/sized_inputs.h"
#include "refx/run.h"

namespace refx {

RunResult run_on_copies(const Model& model, const Measure& measure) {
  const Inputs inputs = sized_inputs(model, measure);
  const Environment environment(measure.threads.value_or(0));
  RunResult result;
  result.inputs = inputs.origin;
  for (Run& run : run_sequence(model, inputs, measure.seed)) {
    result.random |= run.random;
    result.outputs.push_back(std::move(run.output));
    if (!run.state.empty()) result.state = std::move(run.state);
  }
  result.output = result.outputs.back();
  return result;
}

}  // namespace refx
