#include <fmt/format.h>

#include <optional>

#include "refx/error.h"
#include "refx/report.h"

namespace refx {

namespace {

// What was measured, or why it could not be.
template <class Result>
struct Measured {
  std::optional<Result> result;
  std::string why_not;
};

template <class Result, class F>
Measured<Result> measure(const char* command, bool wanted, const Model& model,
                         std::vector<std::string>& notes, F&& run) {
  if (!wanted) return {{}, fmt::format("It was left out; `refx {}` does it.", command)};
  if (model.history().empty()) return {{}, "The model has no steps: there is nothing to compare."};
  try {
    return {run(), {}};
  } catch (const Error& error) {
    notes.push_back(fmt::format("no {}: {}", command, error.what()));
    return {{}, error.what()};
  }
}

}  // namespace

MeasuredReport measured_report(const Model& model, const MeasureOptions& options) {
  MeasuredReport result;
  const auto verified = measure<Verification>("verify", options.verify, model, result.notes, [&] {
    VerifyOptions how;
    if (!options.inputs.values.empty()) how.inputs = {options.inputs};
    how.threads = options.threads;
    how.per_step = how.power = options.per_step;
    how.progress = options.progress;
    how.seed = options.seed;
    return verify(model, how);
  });
  const auto timed = measure<Benchmark>("bench", options.bench, model, result.notes, [&] {
    return bench(model, {.inputs = options.inputs,
                         .threads = options.threads,
                         .per_step = options.per_step,
                         .seconds = options.seconds,
                         .seed = options.seed,
                         .progress = options.progress});
  });
  if (verified.result && verified.result->answer() == Answer::fail)
    result.notes.push_back("the model differs from its original: see the page, or `refx verify`");
  if (verified.result && verified.result->answer() == Answer::cannot_tell)
    result.notes.push_back("it cannot be told whether the model computes what its original did: " +
                           verified.result->reason());
  result.html = report(model, {.title = options.title,
                               .verification = verified.result ? &*verified.result : nullptr,
                               .benchmark = timed.result ? &*timed.result : nullptr,
                               .not_verified = verified.why_not,
                               .not_benchmarked = timed.why_not});
  return result;
}

}  // namespace refx
