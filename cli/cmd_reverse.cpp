// SPDX-License-Identifier: Apache-2.0

// refx reverse: undoes steps of a file.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "commands.h"
#include "files.h"
#include "output.h"
#include "refx/detach.h"
#include "refx/error.h"
#include "refx/pt2.h"
#include "refx/reverse.h"
#include "util/json_writer.h"
#include "util/shell_word.h"

namespace refx::cli {

namespace {

void check_usage(const ReverseOptions& options) {
  const std::string help = "; see `refx reverse --help`";
  if (options.all && !options.what.empty())
    throw Error("--all already selects every step: remove it or '" + options.what[0] + "'" + help);
  if (!options.all && options.what.empty())
    throw Error("'reverse' needs step numbers, transformations, site patterns or --all" + help);
  require_output("reverse", options.model, options.output);
}

std::vector<StepId> selected(const Model& model, const ReverseOptions& options) {
  if (options.all) return model.history().ids();
  std::set<StepId> ids;
  for (const std::string& what : options.what)
    for (StepId id : model.history().select(what)) ids.insert(id);
  return {ids.begin(), ids.end()};
}

// What happened to every step that is not live any more.
struct Report {
  struct Row {
    StepId id;
    std::string transformation, site;
    const Reversal::Replaced* replaced;  // null: reversed as requested
  };
  std::vector<Row> rows;
  std::size_t left = 0;
  bool original = false;
  bool proven = false;  // compared with the original, byte by byte
};

std::string fate(const Report::Row& row) {
  if (!row.replaced) return "reversed";
  if (!row.replaced->known)
    return "dropped: it depended on a reversed step, and its rule is not loaded; to apply it "
           "again, load the rule with --rules FILE";
  if (row.replaced->reapplied.empty())
    return "dropped: it depended on a reversed step, and has no site without that step";
  std::vector<std::uint32_t> ids;
  for (StepId id : row.replaced->reapplied) ids.push_back(id.value);
  return fmt::format("applied again as {}", fmt::join(ids, ", "));
}

void print_report(const Report& report, const std::string& input, const std::string& output) {
  TextTable table({TextTable::right, TextTable::left, TextTable::left, TextTable::left});
  for (const Report::Row& row : report.rows)
    table.row({std::to_string(row.id.value), row.transformation, row.site, fate(row)});
  say_table(table);
  if (report.rows.empty()) return;  // a note has said that there are no such steps
  if (report.left > 0)
    say("{} left: `refx log {}`\n", count(report.left, "step"), shell_word(output));
  else if (report.proven)
    say("no steps left: this is the original file, byte for byte\n");
  else if (report.original)
    say("no steps left: this is the original file as recorded in the history of {}\n", input);
  else
    say("no steps left: this is the original graph, with later training kept\n");
}

void print_json(const Report& report, const std::string& output) {
  Json json;
  json.object(Json::kLines).member("output", output).key("steps").array(Json::kLines);
  for (const Report::Row& row : report.rows) {
    json.object().member("id", row.id.value).member("transformation", row.transformation);
    json.member("site", row.site);
    const bool again = row.replaced && !row.replaced->reapplied.empty();
    json.member("outcome", !row.replaced ? "reversed" : again ? "reapplied" : "dropped");
    json.key("reapplied_as").array();
    if (again)
      for (StepId id : row.replaced->reapplied) json.value(id.value);
    json.end().end();
  }
  json.end().member("steps_left", report.left).member("is_original", report.original);
  say_exactly(json.end().take());
}

}  // namespace

int reverse(const ReverseOptions& options) {
  check_usage(options);
  Model& model = open_model(options.model);
  const std::vector<StepId> steps = selected(model, options);
  if (steps.empty()) note(fmt::format("{} has no steps to reverse", options.model));

  const ReversalPlan plan = plan_reversal(model, steps);
  std::map<StepId, Report::Row> labels;  // of all steps that may be reversed
  auto note_label = [&](StepId id) {
    const Step& step = model.history()[id];
    labels.emplace(id, Report::Row{id, step.transformation, step.site, nullptr});
  };
  for (StepId id : plan.asked) note_label(id);
  for (const auto& [id, causes] : plan.dependents) note_label(id);
  if (!options.base.empty()) attach(model, plan, options.base);
  const Reversal reversal = refx::reverse(model, plan,
                                          {.dependents = options.refuse    ? Dependents::refuse
                                                         : options.cascade ? Dependents::cascade
                                                                           : Dependents::reapply,
                                           .discard_changes = options.discard_changes});

  Report report;
  for (StepId id : reversal.reversed) report.rows.push_back(labels.at(id));
  for (const Reversal::Replaced& replaced : reversal.replaced) {
    report.rows.push_back(labels.at(replaced.id));
    report.rows.back().replaced = &replaced;
  }
  report.left = model.history().size();
  report.original = is_original(model);
  report.proven = is_proven_original(model);

  if (!steps.empty() || !same_file(options.model, options.output)) write(model, options.output);
  if (options.json)
    print_json(report, options.output);
  else
    print_report(report, options.model, options.output);
  return kDone;
}

}  // namespace refx::cli
