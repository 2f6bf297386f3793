// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "lab/run/sized_inputs.h"
#include "refx/error.h"
#include "refx/hint.h"
#include "refx/report.h"

namespace refx {

namespace {

// A measurement, or the reason why there is none.
template <class Result>
struct Measured {
  std::optional<Result> result;
  std::string why_not;
};

template <class Result, class F>
Measured<Result> measured(const char* what, bool wanted, const Model& model,
                          std::vector<std::string>& notes, F&& run) {
  if (!wanted) return {{}, "Not measured, as requested."};
  if (model.history().empty())
    return {{}, "The model has no steps, so there is nothing to compare."};
  try {
    return {run(), {}};
  } catch (const Error& error) {
    const auto* hinted = dynamic_cast<const HintedError*>(&error);
    if (hinted && hinted->hint() == Hint::allow_ops) throw;  // the user decides
    notes.push_back(fmt::format("no {}: {}", what, error.what()));
    return {{}, error.what()};
  }
}

// Measures each lossy step, also those that were reversed, with one run each. Only if verify() runs
// too, since a user who skips that does not want the model to run.
std::optional<Sensitivity> measured_sensitivity(const Model& model, const Measure& measure,
                                                const MeasuredReportOptions& options,
                                                std::vector<std::string>& notes) {
  SensitivityOptions how{.reversed = true, .measure = measure};
  for (const TransformationPtr& transformation : options.transformations)
    if (!transformation->preserves_computation()) how.transformations.push_back(transformation);
  const auto lossy = [](const Step& step) { return is_lossy(step); };
  if (!options.verify || (how.transformations.empty() &&
                          std::none_of(model.history().begin(), model.history().end(), lossy)))
    return {};
  try {
    return sensitivity(model, how);
  } catch (const Error& error) {
    notes.push_back(fmt::format("no sensitivity: {}", error.what()));
    return {};
  }
}

}  // namespace

MeasuredReport measured_report(const Model& model, const MeasuredReportOptions& options) {
  require_valid(options.measure);
  MeasuredReport result;
  Measure measure = options.measure;
  measure.threads = measure.threads.value_or(1);
  const auto verified = measured<Verification>("verify", options.verify, model, result.notes, [&] {
    return verify(model,
                  {.measure = measure, .per_step = options.per_step, .power = options.per_step});
  });
  const auto timed = measured<Benchmark>("bench", options.bench, model, result.notes, [&] {
    return bench(model, {.measure = measure, .per_step = options.per_step});
  });
  const auto sensitive = measured_sensitivity(model, measure, options, result.notes);
  if (verified.result && verified.result->answer() == VerifyVerdict::fail)
    result.notes.push_back("the model differs from its original: see the page");
  if (verified.result && verified.result->answer() == VerifyVerdict::cannot_tell)
    result.notes.push_back(
        "verify could not determine whether the model computes what its original did: " +
        verified.result->reason());
  if (verified.result && verified.result->answer() == VerifyVerdict::not_judged)
    result.notes.push_back("the error of the lossy steps was measured but not judged: " +
                           verified.result->reason());
  result.html = report(model, {.title = options.title,
                               .verification = verified.result ? &*verified.result : nullptr,
                               .benchmark = timed.result ? &*timed.result : nullptr,
                               .sensitivity = sensitive ? &*sensitive : nullptr,
                               .tuning = options.tuning,
                               .not_verified = verified.why_not,
                               .not_benchmarked = timed.why_not});
  return result;
}

}  // namespace refx
