// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lab/verify/words.h"
#include "refx/sensitivity.h"
#include "util/columns.h"
#include "util/json_writer.h"
#include "util/printable.h"

namespace refx {

namespace {

// Bars on a logarithmic scale from the smallest to the largest error, at least a decade. Errors of
// layers differ by orders of magnitude, so linear bars would show only the largest.
class Bars {
 public:
  explicit Bars(const std::vector<StepLoss>& steps) {
    for (const StepLoss& step : steps)
      if (step.error > 0 && std::isfinite(step.error)) {
        low_ = std::min(low_, std::log10(step.error));
        high_ = std::max(high_, std::log10(step.error));
      }
    low_ = std::min(low_, high_ - 1);
  }

  std::string of(double error) const {
    if (error == 0) return "";
    if (!std::isfinite(error)) return std::string(kLongest, '#');
    const double part = (std::log10(error) - low_) / (high_ - low_);
    return std::string(1 + static_cast<std::size_t>(std::lround(part * (kLongest - 1))), '#');
  }

 private:
  static constexpr std::size_t kLongest = 30;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -low_;
};

void write(Json& json, const StepLoss& step) {
  json.object().member("id", step.id.value).member("transformation", step.transformation);
  json.member("site", step.site).key("built_on").array();
  for (StepId id : step.built_on) json.value(id.value);
  json.end().member("in_model", step.in_model).member("error", step.error);
  json.member("sqnr", step.sqnr()).member("bytes_before", step.bytes_before);
  json.member("bytes_after", step.bytes_after).end();
}

}  // namespace

std::string to_text(const Sensitivity& s) {
  const Bars bars(s.steps);
  double most = 0;
  for (const StepLoss& step : s.steps) most = std::max(most, step.error);
  std::vector<Row> rows = {
      {"step", "transformation", "site", "bytes", "after", "error", "SQNR dB", "log scale"}};
  for (const StepLoss& step : s.steps)
    rows.push_back({step.in_model ? std::to_string(step.id.value) : "-", step.transformation,
                    step.site, std::to_string(step.bytes_before), std::to_string(step.bytes_after),
                    short_number(step.error), decibels(step.error),
                    bars.of(step.error) + (step.error == most && most > 0 ? "  worst" : "")});
  const bool all_in_model = std::all_of(s.steps.begin(), s.steps.end(),
                                        [](const StepLoss& step) { return step.in_model; });
  return fmt::format(
      "relative L2 error of each lossy step by itself, in the order of the model\n"
      "{}inputs: {}; {} thread{}, {} runs\n\n{}\n{}: {}\n",
      all_in_model ? "" : "steps without a number are not in the model\n", printable(s.inputs),
      s.threads, s.threads == 1 ? "" : "s", s.runs, columns(rows),
      s.steps.size() == 1 ? "with it" : fmt::format("all {} together", s.steps.size()),
      short_number(s.error));
}

std::string to_json(const Sensitivity& s) {
  Json json;
  json.object(Json::kLines).member("error", s.error).member("inputs", s.inputs);
  json.member("threads", s.threads).member("runs", s.runs).key("steps").array(Json::kLines);
  for (const StepLoss& step : s.steps) write(json, step);
  json.end().end();
  return json.take();
}

}  // namespace refx
