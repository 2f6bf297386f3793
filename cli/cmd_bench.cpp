// refx bench: how much faster a rewritten model is than its original, or than another file.

#include "refx/bench.h"

#include <fmt/format.h>

#include <optional>

#include "commands.h"
#include "progress.h"
#include "refx/pt2.h"

namespace refx::cli {

int bench(const BenchOptions& options) {
  const Model model = load(options.model);
  std::optional<Model> against;
  Progress progress(100);
  refx::BenchOptions how;
  if (!options.against.empty()) how.against = &against.emplace(load(options.against));
  if (!options.inputs.empty()) how.inputs = inputs_for(model, options.inputs, options.seed);
  how.batch = options.batch;
  how.threads = options.threads;
  how.device = options.device;
  how.cuda_graph = options.cuda_graph;
  how.per_step = options.per_step;
  how.seconds = options.seconds;
  how.seed = options.seed;
  how.progress = progress.callback();
  const Benchmark result = refx::bench(model, how);
  progress.clear();
  fmt::print("{}", options.json ? to_json(result) : to_text(result));
  return kDone;
}

}  // namespace refx::cli
