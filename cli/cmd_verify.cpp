// refx verify: whether a rewritten model still computes what its original did.

#include <fmt/format.h>

#include <optional>

#include "commands.h"
#include "output.h"
#include "progress.h"
#include "refx/pt2.h"
#include "refx/verify.h"

namespace refx::cli {

int verify(const VerifyOptions& options) {
  const Model model = load(options.model);
  std::optional<Model> against;
  refx::VerifyOptions how;
  if (!options.against.empty()) how.against = &against.emplace(load(options.against));
  if (!options.inputs.empty()) how.inputs = {inputs_for(model, options.inputs, options.seed)};
  how.tolerance = options.tolerance;
  how.per_step = options.per_step;
  how.power = options.power;
  how.threads = options.threads;
  how.seed = options.seed;
  Progress progress(0);
  how.progress = progress.callback();
  const Verification result = refx::verify(model, how);
  progress.clear();
  if (options.json)
    fmt::print("{}", to_json(result));
  else
    fmt::print("{}", to_text(result));
  return result.passed() ? kDone : kNo;
}

}  // namespace refx::cli
