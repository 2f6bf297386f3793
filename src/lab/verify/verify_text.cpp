// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "lab/verify/judge.h"
#include "lab/verify/words.h"
#include "refx/verify.h"
#include "util/columns.h"
#include "util/printable.h"

namespace refx {

namespace {

std::string verdict(const OutputCheck& c) {
  switch (c.answer) {
    case VerifyVerdict::pass:
      return "pass";
    case VerifyVerdict::not_judged:
      return "not judged: " + c.problem;
    case VerifyVerdict::cannot_tell:
      return "CANNOT TELL: " + c.problem;
    case VerifyVerdict::fail:
      break;
  }
  return "FAIL: " + c.problem;
}
std::string percent(double part) {
  return part == 0 ? "0" : part < 1e-3 ? "<0.1%" : fmt::format("{:.1f}%", 100 * part);
}

// A pass with a tolerance of 0 needed none, for example because the bits are equal.
std::string allowed(const OutputCheck& c, double bound) {
  const bool none = c.lossy || (bound == 0 && c.answer <= VerifyVerdict::not_judged);
  return none ? "-" : short_number(c.relative(bound));
}

// "output", or "call 3: output".
std::string where(const OutputCheck& c) {
  return c.call == 0 ? c.path : fmt::format("call {}: {}", c.call, c.path);
}

Row row_of(const OutputCheck& c) {
  if (c.exact)
    return {where(c),  c.type, "-", "equal", "-", "-", "equal", "-", percent(c.fraction_exceeding),
            verdict(c)};
  return {where(c),
          c.type,
          short_number(c.relative(c.fp64_error.error)),
          allowed(c, c.fp64_error.allowed),
          short_number(c.relative(c.original_error)),
          short_number(c.relative(c.native_error.error)),
          allowed(c, c.native_error.allowed),
          short_number(c.l2),
          percent(c.fraction_exceeding),
          verdict(c)};
}

std::string outputs_of(const SetCheck& set) {
  std::vector<Row> rows = {{"output", "type", "fp64", "allowed", "original", "native", "allowed",
                            "L2", "exceeding", "verdict"}};
  for (const OutputCheck& check : set.outputs) rows.push_back(row_of(check));
  const std::string calls =
      set.calls == 1 ? "" : fmt::format("; {} calls, the worst of each output", set.calls);
  return fmt::format("inputs: {}{}\n{}", printable(set.origin), calls, columns(rows));
}

std::string bases_of(const StepCheck& step) {
  std::vector<std::uint32_t> ids;
  for (StepId id : step.built_on) ids.push_back(id.value);
  return ids.empty() ? "-" : fmt::format("{}", fmt::join(ids, ","));
}

std::string exact_steps_of(const std::vector<StepCheck>& steps) {
  std::vector<Row> rows = {
      {"step", "transformation", "site", "built on", "fp64", "native", "added", "at", "verdict"}};
  for (const StepCheck& step : steps) {
    const OutputCheck& worst = step.worst;
    if (!step.lossy)
      rows.push_back({std::to_string(step.id.value), step.transformation, step.site, bases_of(step),
                      short_number(worst.relative(worst.fp64_error.error)),
                      short_number(worst.relative(worst.native_error.error)),
                      short_number(step.added_error), where(worst), verdict(worst)});
  }
  return rows.size() == 1 ? "" : "\neach step by itself:\n" + columns(rows);
}

std::string lossy_steps_of(const std::vector<StepCheck>& steps) {
  std::vector<Row> rows = {
      {"step", "transformation", "site", "built on", "L2", "SQNR dB", "native", "marginal", "at"}};
  for (const StepCheck& step : steps) {
    const OutputCheck& worst = step.worst;
    const double error = loss(worst);
    if (step.lossy)
      rows.push_back({std::to_string(step.id.value), step.transformation, step.site, bases_of(step),
                      short_number(error), decibels(error),
                      short_number(worst.relative(worst.native_error.error)),
                      short_number(step.marginal_error), where(worst)});
  }
  if (rows.size() == 1) return "";
  return "\nlossy steps, each by itself; marginal: error of the model minus its error without the "
         "step\n" +
         columns(rows);
}

std::string describe(const Lossy& lossy) {
  return fmt::format("error {}, {}", short_number(lossy.error),
                     lossy.budget > 0 ? fmt::format("budget {:g}", lossy.budget) : kNoBudget);
}

std::string power_of(const std::vector<StepPower>& steps) {
  std::vector<Row> rows = {{"step", "transformation", "site", "detected from"}};
  for (const StepPower& step : steps)
    rows.push_back({std::to_string(step.id.value), step.transformation, step.site,
                    step.detected ? short_number(*step.detected) : "never"});
  return "smallest relative error in the results of a step that is detected:\n" + columns(rows);
}

}  // namespace

std::string short_number(double value) { return value == 0 ? "0" : fmt::format("{:.1e}", value); }

std::string decibels(double error) {
  return error > 0 ? fmt::format("{:.1f}", -20 * std::log10(error)) : "-";
}

std::string to_text(const Verification& v) {
  std::string text = fmt::format(
      "errors relative to the largest number of each output, {} thread{}\n"
      "fp64: both models in fp64, compared with each other\n"
      "original, native: each model in its own dtype, compared with {}\n"
      "L2: native, of the whole output; exceeding: the fraction of elements above what is "
      "allowed\n",
      v.threads, v.threads == 1 ? "" : "s",
      v.in_fp64 && !v.random ? "the original in fp64" : "the original in its own dtype");
  if (!v.in_fp64) text += fmt::format("no fp64 run: {}\n", printable(v.why_not));
  if (v.random)
    text += fmt::format("the outputs are random: every run started from seed {}\n", v.seed);
  for (const SetCheck& set : v.sets) text += "\n" + outputs_of(set);
  text += exact_steps_of(v.steps) + lossy_steps_of(v.steps);
  if (!v.power.empty()) text += "\n" + power_of(v.power);
  for (const std::string& warning : v.warnings) text += "\nwarning: " + printable(warning) + "\n";
  for (const std::string& note : v.notes) text += "\nnote: " + printable(note) + "\n";
  const std::string reason =
      v.lossy && v.answer() <= VerifyVerdict::not_judged ? describe(*v.lossy) : v.reason();
  return text + fmt::format("\n{}{}{}\n", v.answer() == VerifyVerdict::fail ? "FAIL" : v.verdict(),
                            reason.empty() ? "" : ": ", printable(reason));
}

}  // namespace refx
