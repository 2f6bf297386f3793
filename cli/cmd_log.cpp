// SPDX-License-Identifier: Apache-2.0

// refx log: lists the live steps of a file, oldest first.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "commands.h"
#include "files.h"
#include "output.h"
#include "refx/detach.h"
#include "refx/pt2.h"
#include "refx/text.h"
#include "summary.h"
#include "util/json_writer.h"

namespace refx::cli {

namespace {

// A later step may have erased the node, so its name is looked up in the step.
std::string_view name_of(const Step& step, NodeId id) {
  for (const Edit& edit : step.edits)
    if (const auto* change = std::get_if<Change<Node>>(&edit); change && change->id == id)
      return change->after ? change->after->name : change->before->name;
  return {};
}

// Exact steps, which most are, have no mark.
const char* mark_of(Numerics numerics) {
  return numerics == Numerics::preserved ? "" : to_string(numerics);
}

void print_json(const Model& model) {
  Json json;
  json.array(Json::kLines);
  for (const Step& step : model.history()) {
    json.object().member("id", step.id.value).member("transformation", step.transformation);
    json.member("site", step.site).member("numerics", to_string(step.numerics));
    json.key("nodes").array();
    for (NodeId id : step.nodes) json.value(name_of(step, id));
    json.end().key("parameters").json(to_json(step.parameters));
    json.member("bytes", step.bytes()).member("detached", total_bytes(detached(step))).end();
  }
  say_exactly(json.end().take());
}

}  // namespace

int log(const LogOptions& options) {
  TextTable table({TextTable::right, TextTable::left, TextTable::left, TextTable::left});
  const auto labels = options.json ? std::nullopt : read_log(options.model);
  if (labels && !labels->empty()) {
    for (const StepLabel& step : *labels)
      table.row(
          {std::to_string(step.id.value), step.transformation, step.site, mark_of(step.numerics)});
    say_table(table);
    return kDone;
  }
  Model& model = open_model(options.model);
  if (options.json) {
    print_json(model);
    return kDone;
  }
  for (const Step& step : model.history()) {
    const std::vector<DetachedTensor> away = detached(step);
    std::vector<std::string> marks;
    if (step.numerics == Numerics::approximate) marks.emplace_back(mark_of(step.numerics));
    if (!away.empty()) marks.push_back(originals(away) + " detached");
    table.row({std::to_string(step.id.value), step.transformation, step.site,
               fmt::format("{}", fmt::join(marks, ", "))});
  }
  if (table.empty()) note(fmt::format("{} has no steps", options.model));
  say_table(table);
  if (const std::vector<DetachedTensor> away = detached(model); !away.empty())
    note(fmt::format("{} detached: --base with a file that still has them restores them",
                     originals(away)));
  return kDone;
}

}  // namespace refx::cli
