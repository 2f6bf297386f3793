// SPDX-License-Identifier: Apache-2.0

// refx sensitivity: measures the error of each lossy step.

#include "commands.h"
#include "files.h"
#include "output.h"
#include "patterns.h"
#include "progress.h"
#include "refx/sensitivity.h"

namespace refx::cli {

int sensitivity(const SensitivityOptions& options) {
  const Model& model = load_to_run(options.model, options);
  refx::SensitivityOptions how{.transformations = find_transformations(options.transformations),
                               .filter = options.filter,
                               .measure = options.measure};
  take_inputs(how.measure, model, options.inputs);
  Progress progress(100);
  how.measure.progress = progress.callback();
  const Sensitivity result = with_patterns(options.model, options.transformations,
                                           [&] { return refx::sensitivity(model, how); });
  progress.clear();
  options.json ? say_exactly(to_json(result)) : say_lines(to_text(result));
  return kDone;
}

}  // namespace refx::cli
