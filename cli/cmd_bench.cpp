// SPDX-License-Identifier: Apache-2.0

// refx bench: compares the speed of a model with its original, or with another file.

#include <fmt/format.h>

#include "commands.h"
#include "files.h"
#include "output.h"
#include "progress.h"
#include "refx/bench.h"

namespace refx::cli {

int bench(const BenchOptions& options) {
  const Model& model = load_to_run(options.model, options);
  Progress progress(100);
  refx::BenchOptions how = options.how;
  if (!options.against.empty()) how.against = &load_to_run(options.against, options);
  take_inputs(how.measure, model, options.inputs);
  how.measure.progress = progress.callback();
  const Benchmark result = refx::bench(model, how);
  progress.clear();
  options.json ? say_exactly(to_json(result, hint_as_flag))
               : say_lines(to_text(result, hint_as_flag));
  return kDone;
}

}  // namespace refx::cli
