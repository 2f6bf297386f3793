// refx report: one page of HTML about a model, its steps and what they do.

#include "refx/report.h"

#include <fmt/format.h>

#include <optional>

#include "archive/atomic_file.h"
#include "commands.h"
#include "files.h"
#include "output.h"
#include "progress.h"
#include "refx/error.h"
#include "refx/pt2.h"
#include "text/shell_word.h"

namespace refx::cli {

namespace {

// What was measured, or why it could not be.
template <class Result>
struct Measured {
  std::optional<Result> result;
  std::string why_not;
};

template <class Result, class F>
Measured<Result> measure(const char* command, bool wanted, const Model& model, F&& run) {
  if (!wanted) return {{}, fmt::format("It was left out; `refx {}` does it.", command)};
  if (model.history().empty()) return {{}, "The model has no steps: there is nothing to compare."};
  try {
    return {run(), {}};
  } catch (const Error& error) {
    note(fmt::format("no {}: {}", command, error.what()));
    return {{}, error.what()};
  }
}

}  // namespace

int report(const ReportOptions& options) {
  if (options.output.empty())
    throw Error("'report' writes a file: say which with -o OUT.html");
  if (same_file(options.model, options.output))
    throw Error(fmt::format("-o {} is the model itself: the page needs a file of its own",
                            shell_word(options.output)));
  const Model model = load(options.model);
  // Inputs that the user gives must be right; without them, the page may do without a run.
  std::optional<Inputs> inputs;
  if (!options.inputs.empty()) inputs = inputs_for(model, options.inputs, options.seed);

  const auto verified = measure<Verification>("verify", !options.no_verify, model, [&] {
    refx::VerifyOptions how;
    if (inputs) how.inputs = {*inputs};
    how.threads = options.threads;
    how.per_step = options.per_step;
    how.seed = options.seed;
    return refx::verify(model, how);
  });
  const auto timed = measure<Benchmark>("bench", !options.no_bench, model, [&] {
    refx::BenchOptions how;
    if (inputs) how.inputs = *inputs;
    how.threads = options.threads;
    how.per_step = options.per_step;
    how.seed = options.seed;
    Progress progress(100);
    how.progress = progress.callback();
    return refx::bench(model, how);
  });

  refx::ReportOptions page;
  page.title = options.title;
  if (verified.result) page.verification = &*verified.result;
  if (timed.result) page.benchmark = &*timed.result;
  page.not_verified = verified.why_not;
  page.not_benchmarked = timed.why_not;
  const std::string html = refx::report(model, page);
  write_atomically(options.output, html);
  if (verified.result && !verified.result->passed())
    note("the model differs from its original: see the page, or `refx verify`");
  note(fmt::format("wrote {} ({})", options.output, human_bytes(html.size())));
  return kDone;
}

}  // namespace refx::cli
