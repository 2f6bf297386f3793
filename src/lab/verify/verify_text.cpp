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
    case Answer::pass:
      return "pass";
    case Answer::not_judged:
      return "not judged: " + c.problem;
    case Answer::cannot_tell:
      return "CANNOT TELL: " + c.problem;
    case Answer::fail:
      break;
  }
  return "FAIL: " + c.problem;
}
std::string percent(double part) {
  return part == 0 ? "0" : part < 1e-3 ? "<0.1%" : fmt::format("{:.1f}%", 100 * part);
}

// Where no difference had to be allowed, none is shown.
std::string allowed(const OutputCheck& c, double bound) {
  return bound == 0 && c.answer <= Answer::not_judged ? "-" : short_number(c.relative(bound));
}

// "output", or "call 3: output".
std::string where(const OutputCheck& c) {
  return c.call == 0 ? c.path : fmt::format("call {}: {}", c.call, c.path);
}

Row row_of(const OutputCheck& c) {
  if (c.exact)
    return {where(c), c.type, "-", "equal", "-", "-", "equal", "-", percent(c.beyond), verdict(c)};
  return {where(c),
          c.type,
          short_number(c.relative(c.meaning.error)),
          allowed(c, c.meaning.allowed),
          short_number(c.relative(c.original_error)),
          short_number(c.relative(c.now.error)),
          allowed(c, c.now.allowed),
          short_number(c.l2),
          percent(c.beyond),
          verdict(c)};
}

std::string outputs_of(const SetCheck& set) {
  std::vector<Row> rows = {{"output", "type", "in fp64", "allowed", "original", "now", "allowed",
                            "L2", "beyond", "verdict"}};
  for (const OutputCheck& check : set.outputs) rows.push_back(row_of(check));
  const std::string calls =
      set.calls == 1 ? "" : fmt::format("; {} calls, each output where it is worst", set.calls);
  return fmt::format("inputs: {}{}\n{}", printable(set.origin), calls, columns(rows));
}

std::string bases_of(const StepCheck& step) {
  std::vector<std::uint32_t> ids;
  for (StepId id : step.built_on) ids.push_back(id.value);
  return ids.empty() ? "-" : fmt::format("{}", fmt::join(ids, ","));
}

std::string exact_steps_of(const std::vector<StepCheck>& steps) {
  std::vector<Row> rows = {
      {"step", "transformation", "site", "built on", "in fp64", "now", "added", "at", "verdict"}};
  for (const StepCheck& step : steps) {
    const OutputCheck& worst = step.worst;
    if (!step.lossy)
      rows.push_back({std::to_string(step.id.value), step.transformation, step.site, bases_of(step),
                      short_number(worst.relative(worst.meaning.error)),
                      short_number(worst.relative(worst.now.error)), short_number(step.added_error),
                      where(worst), verdict(worst)});
  }
  return rows.size() == 1 ? "" : "\neach step by itself:\n" + columns(rows);
}

std::string lossy_steps_of(const std::vector<StepCheck>& steps) {
  std::vector<Row> rows = {{"step", "transformation", "site", "built on", "L2", "SQNR dB",
                            "largest", "in the whole", "at"}};
  for (const StepCheck& step : steps) {
    const OutputCheck& worst = step.worst;
    const double error = loss(worst);
    if (step.lossy)
      rows.push_back({std::to_string(step.id.value), step.transformation, step.site, bases_of(step),
                      short_number(error), decibels(error),
                      short_number(worst.relative(worst.now.error)),
                      short_number(step.in_the_whole), where(worst)});
  }
  if (rows.size() == 1) return "";
  return "\nlossy steps, each by itself; in the whole: what the model's error is larger by with "
         "it\n" +
         columns(rows);
}

std::string describe(const Lossy& lossy) {
  return fmt::format("error {}, {}", short_number(lossy.error),
                     lossy.budget > 0 ? fmt::format("budget {:g}", lossy.budget) : kNoBudget);
}

std::string power_of(const std::vector<StepPower>& steps) {
  std::vector<Row> rows = {{"step", "transformation", "site", "noticed from"}};
  for (const StepPower& step : steps)
    rows.push_back({std::to_string(step.id.value), step.transformation, step.site,
                    step.noticed ? short_number(*step.noticed) : "never"});
  return "how small a wrong in what a step made is noticed, as a part of every number:\n" +
         columns(rows);
}

}  // namespace

std::string short_number(double value) { return value == 0 ? "0" : fmt::format("{:.1e}", value); }

std::string decibels(double error) {
  return error > 0 ? fmt::format("{:.1f}", -20 * std::log10(error)) : "-";
}

std::string to_text(const Verification& v) {
  std::string text = fmt::format(
      "errors as parts of each output's largest number, {} thread{}\n"
      "in fp64: between the two forms there; original, now: of each form as it runs, from {};\n"
      "L2: of the whole output now; beyond: the share of elements beyond what is allowed\n",
      v.threads, v.threads == 1 ? "" : "s",
      v.in_fp64 && !v.random ? "the original in fp64" : "the original as it runs");
  if (!v.in_fp64) text += fmt::format("no fp64 run: {}\n", printable(v.why_not));
  if (v.random)
    text += fmt::format("the outputs are random: every run started from seed {}\n", v.seed);
  for (const SetCheck& set : v.sets) text += "\n" + outputs_of(set);
  text += exact_steps_of(v.steps) + lossy_steps_of(v.steps);
  if (!v.power.empty()) text += "\n" + power_of(v.power);
  for (const std::string& warning : v.warnings) text += "\nwarning: " + printable(warning) + "\n";
  for (const std::string& note : v.notes) text += "\nnote: " + printable(note) + "\n";
  const std::string reason =
      v.lossy && v.answer() <= Answer::not_judged ? describe(*v.lossy) : v.reason();
  return text + fmt::format("\n{}{}{}\n", v.answer() == Answer::fail ? "FAIL" : v.verdict(),
                            reason.empty() ? "" : ": ", printable(reason));
}

}  // namespace refx
