// SPDX-License-Identifier: Apache-2.0

// refx verify: compares the outputs of a model with those of its original.

#include <fmt/format.h>

#include "commands.h"
#include "files.h"
#include "output.h"
#include "progress.h"
#include "refx/verify.h"

namespace refx::cli {

int verify(const VerifyOptions& options) {
  const Model& model = load_to_run(options.model, options);
  refx::VerifyOptions how = options.how;
  if (!options.against.empty()) how.against = &load_to_run(options.against, options);
  how.more_inputs = take_inputs(how.measure, model, options.inputs);
  Progress progress(0);
  how.measure.progress = progress.callback();
  const Verification result = refx::verify(model, how);
  progress.clear();
  options.json ? say_exactly(to_json(result)) : say_lines(to_text(result));
  return result.passed() ? kDone : kNo;
}

}  // namespace refx::cli
