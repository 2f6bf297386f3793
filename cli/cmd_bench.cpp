// SPDX-License-Identifier: Apache-2.0

// refx bench: how much faster a rewritten model is than its original, or than another file.

#include <fmt/format.h>

#include "commands.h"
#include "files.h"
#include "hints.h"
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
  options.json ? say_exactly(to_json(result, in_flags)) : say_lines(to_text(result, in_flags));
  return kDone;
}

}  // namespace refx::cli
