// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "refx/bisect.h"
#include "util/columns.h"
#include "util/json_writer.h"
#include "util/printable.h"

namespace refx {

namespace {

std::vector<std::uint32_t> numbers(const std::vector<StepId>& ids) {
  std::vector<std::uint32_t> all;
  for (StepId id : ids) all.push_back(id.value);
  return all;
}

std::string repair_of(const Bisection& b, const std::string& said) {
  if (!said.empty()) return said;
  return fmt::format("reverse {} with the steps that build on {}{}",
                     fmt::join(numbers(b.repair), ", "), b.repair.size() == 1 ? "it" : "them",
                     b.discards ? ", discarding later changes of weights" : "");
}

std::string culprits_of(const Bisection& b, const Model& model) {
  std::string text;
  for (const Culprit& culprit : b.culprits) {
    text += culprit.steps.size() == 1 ? "the check fails because of this step:\n"
                                      : "the check fails because of these steps together:\n";
    std::vector<Row> rows;
    for (StepId id : culprit.steps) {
      const Step& step = model.history()[id];
      rows.push_back({std::to_string(id.value), step.transformation, step.site});
    }
    text += columns(rows);
    if (!culprit.built_on.empty())
      text += fmt::format("  they build on {}, which pass by themselves\n",
                          fmt::join(numbers(culprit.built_on), ", "));
  }
  return text;
}

}  // namespace

std::string to_text(const Bisection& b, const Model& model, const std::string& repair) {
  const bool original_fails = b.original == BisectVerdict::bad;
  if (b.current == BisectVerdict::good)
    return original_fails ? "the check passes on the model and fails on its original\n"
                          : "the check passes on the model\n";
  if (original_fails) return "the original fails the check, too: no step is to blame\n";
  std::string text = culprits_of(b, model);
  if (!b.unsure.empty())
    text += fmt::format("uncertain: {}; the check skipped the variants without them\n",
                        fmt::join(numbers(b.unsure), ", "));
  text += fmt::format("{} checks", b.checks);
  if (b.remembered) text += fmt::format(", {} remembered", b.remembered);
  text +=
      b.repaired ? "; the check passes after\n" : "; suggested repair, which the check skipped:\n";
  return text + fmt::format("  {}\n", printable(repair_of(b, repair)));
}

std::string to_json(const Bisection& b, const Model& model, const std::string& repair) {
  Json json;
  const auto ids = [&](const char* name, const std::vector<StepId>& all) {
    json.key(name).array();
    for (StepId id : all) json.value(id.value);
    json.end();
  };
  json.object(Json::kLines).member("original", to_string(b.original));
  json.member("current", to_string(b.current)).key("culprits").array(Json::kLines);
  for (const Culprit& culprit : b.culprits) {
    json.object().key("steps").array();
    for (StepId id : culprit.steps) {
      const Step& step = model.history()[id];
      json.object().member("id", id.value).member("transformation", step.transformation);
      json.member("site", step.site).end();
    }
    json.end();
    ids("built_on", culprit.built_on);
    json.end();
  }
  json.end();
  ids("repair", b.repair);
  json.member("repaired", b.repaired);
  json.key("command");
  b.repair.empty() ? json.null() : json.value(repair_of(b, repair));
  ids("unsure", b.unsure);
  json.member("checks", std::uint64_t{b.checks}).member("remembered", std::uint64_t{b.remembered});
  json.end();
  return json.take();
}

}  // namespace refx
