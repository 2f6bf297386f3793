#include "lab/run/run_once.h"
#include "lab/run/sized_inputs.h"
#include "refx/run.h"

namespace refx {

RunResult run_on_copies(const Model& model, const Measure& measure) {
  const Inputs inputs = sized_inputs(model, measure);
  const Environment environment(measure.threads.value_or(0));
  Run run = run_once(model, inputs.values, measure.seed);
  return {std::move(run.output), inputs.origin, run.random};
}

}  // namespace refx
