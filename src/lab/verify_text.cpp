#include <fmt/format.h>
#include <fmt/ranges.h>

#include "refx/verify.h"
#include "text/columns.h"

namespace refx {

namespace {

std::string verdict(const std::string& problem) {
  return problem.empty() ? "pass" : "FAIL: " + problem;
}
std::string number(double value) { return value == 0 ? "0" : fmt::format("{:.2e}", value); }

Row row_of(const OutputCheck& c) {
  if (c.exact) return {c.path, c.type, "-", "-", "-", "-", "equal", verdict(c.problem)};
  return {c.path,
          c.type,
          number(c.original_error),
          number(c.original_relative()),
          number(c.current_error),
          number(c.current_relative()),
          number(c.allowed),
          verdict(c.problem)};
}

std::string outputs_of(const SetCheck& set) {
  std::vector<Row> rows = {
      {"output", "type", "original", "relative", "now", "relative", "allowed", "verdict"}};
  for (const OutputCheck& check : set.outputs) rows.push_back(row_of(check));
  return fmt::format("inputs: {}\n{}", set.origin, columns(rows));
}

std::string steps_of(const std::vector<StepCheck>& steps) {
  std::vector<Row> rows = {
      {"step", "transformation", "site", "built on", "error", "added", "at", "verdict"}};
  for (const StepCheck& step : steps) {
    std::vector<std::uint32_t> ids;
    for (StepId id : step.built_on) ids.push_back(id.value);
    rows.push_back({std::to_string(step.id.value), step.transformation, step.site,
                    ids.empty() ? "-" : fmt::format("{}", fmt::join(ids, ",")),
                    number(step.worst.current_relative()), number(step.added_error),
                    step.worst.path, verdict(step.worst.problem)});
  }
  return "each step by itself, relative errors:\n" + columns(rows);
}

}  // namespace

std::string to_text(const Verification& v) {
  std::string text = v.in_fp64 ? "errors against the original in fp64"
                               : "differences from the original in its own dtype";
  text += fmt::format(", {} thread{}\n", v.threads, v.threads == 1 ? "" : "s");
  if (!v.in_fp64) text += fmt::format("no fp64 run: {}\n", v.why_not);
  if (v.random)
    text += fmt::format("the outputs are random: every run started from seed {}\n", v.seed);
  for (const SetCheck& set : v.sets) text += "\n" + outputs_of(set);
  if (!v.steps.empty()) text += "\n" + steps_of(v.steps);
  for (const std::string& note : v.notes) text += "\nnote: " + note + "\n";
  return text + fmt::format("\n{}\n", v.passed() ? "pass" : "FAIL");
}

}  // namespace refx
