// SPDX-License-Identifier: Apache-2.0

// refx apply: rewrites a model, and prints the steps and the refusals.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "commands.h"
#include "files.h"
#include "output.h"
#include "patterns.h"
#include "progress.h"
#include "refx/error.h"
#include "refx/old_names.h"
#include "refx/registry.h"
#include "summary.h"
#include "util/json_writer.h"
#include "util/shell_word.h"

namespace refx::cli {

namespace {

using Transformations = std::vector<TransformationPtr>;

struct Applied {
  std::vector<StepId> steps;
  std::vector<std::pair<std::string, Refusal>> refused;  // with the transformation's name
};

Applied apply_all(Model& model, const Transformations& transformations,
                  const ApplyOptions& options) {
  Progress progress(transformations.size());
  const auto outcomes = with_patterns(options.model, options.transformations, [&] {
    return refx::apply(model, transformations, options.filter, progress.callback());
  });
  Applied applied;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    for (StepId id : outcomes[i].steps) applied.steps.push_back(id);
    for (const Refusal& refusal : outcomes[i].refusals)
      applied.refused.emplace_back(transformations[i]->name(), refusal);
  }
  return applied;
}

void print_nothing_done(const Model& model, const Transformations& transformations,
                        const SiteFilter& filter) {
  std::set<std::string> names;
  for (const TransformationPtr& transformation : transformations)
    names.insert(transformation->name());
  std::size_t steps = 0;
  for (const Step& step : model.history())
    steps += std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return same_transformation(name, step.transformation);
    });
  const bool one = names.size() == 1;
  std::string why = one ? *names.begin() + " has no site"
                        : fmt::format("none of the {} transformations has a site", names.size());
  // Every pattern of --exclude matched something, or it would be an error.
  if (!filter.exclude.empty())
    why = fmt::format("no site of {} is left after --exclude",
                      one ? *names.begin() : fmt::format("the {} transformations", names.size()));
  else if (steps > 0)
    why += " left";
  say("nothing to do: {}{}\n", why,
      steps == 0 ? "" : fmt::format("; {} in the history", count(steps, "step")));
}

void print_report(const Model& model, const Applied& applied, const Counts& before,
                  const Transformations& transformations, const SiteFilter& filter) {
  if (applied.steps.empty()) print_nothing_done(model, transformations, filter);
  TextTable table({TextTable::right, TextTable::left, TextTable::left, TextTable::left});
  table.head({"step", "transformation", "site", applied.refused.empty() ? "" : "refused because"});
  for (StepId id : applied.steps) {
    const Step& step = model.history()[id];
    table.row({std::to_string(id.value), step.transformation, step.site});
  }
  for (const auto& [transformation, refusal] : applied.refused)
    table.row({"-", transformation, refusal.site.name, to_string(refusal.reason)});
  if (!table.empty()) say_table(table);
  if (applied.steps.empty()) return;
  say("\n");
  say_table(changes(before, operators(model)));
}

void print_json(const ApplyOptions& options, const Model& model, const Applied& applied,
                const Counts& before) {
  Json json;
  json.object(Json::kLines).member("model", options.model).key("output");
  options.dry_run ? json.null() : json.value(options.output);
  json.key("steps").array(Json::kLines);
  for (StepId id : applied.steps) {
    const Step& step = model.history()[id];
    json.object().member("id", id.value).member("transformation", step.transformation);
    json.member("site", step.site).end();
  }
  json.end().key("refusals").array(Json::kLines);
  for (const auto& [transformation, refusal] : applied.refused)
    write_refusal(json, model, transformation, refusal);
  json.end().key("operators").object(Json::kLines);
  write(json.key("before"), before);
  write(json.key("after"), operators(model)).end();
  say_exactly(json.end().take());
}

}  // namespace

int apply(const ApplyOptions& options) {
  const Transformations transformations = find_transformations(options.transformations);
  if (!options.dry_run) require_output("apply", options.model, options.output);
  Model& model = open_model(options.model);
  const Counts before = operators(model);
  const Applied applied = apply_all(model, transformations, options);

  const bool stays = applied.steps.empty() && same_file(options.model, options.output);
  if (!options.dry_run && !stays) write(model, options.output);
  if (options.json)
    print_json(options, model, applied, before);
  else
    print_report(model, applied, before, transformations, options.filter);
  std::fflush(stdout);
  if (options.dry_run)
    note("dry run: nothing was written");
  else if (stays)
    note(fmt::format("{} is unchanged", options.output));
  else if (!model.history().empty())
    note(fmt::format("next: refx verify {}", shell_word(options.output)));
  return kDone;
}

}  // namespace refx::cli
