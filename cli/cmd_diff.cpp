// SPDX-License-Identifier: Apache-2.0

// refx diff: shows how two models differ, or a model and its original.

#include <fmt/format.h>

#include "commands.h"
#include "files.h"
#include "output.h"
#include "refx/detach.h"
#include "refx/diff.h"
#include "refx/original.h"
#include "util/json_writer.h"
#include "util/printable.h"

namespace refx::cli {

namespace {

using Lines = std::vector<Difference::Line>;

void write_lines(Json& json, const char* what, const Lines& lines) {
  json.key(what).array(Json::kLines);
  for (const Difference::Line& line : lines) {
    json.object().member("name", line.name).member("path", line.path).key("before");
    line.before.empty() ? json.null() : json.value(line.before);
    json.key("after");
    line.after.empty() ? json.null() : json.value(line.after);
    json.member("moved", line.moved).key("values");
    if (const auto& values = line.values)
      json.object()
          .member("different", values->different)
          .member("of", values->of)
          .member("max_abs_difference", values->max_abs)
          .end();
    else
      json.null();
    json.end();
  }
  json.end();
}

void print_json(const std::string& before, const std::string& after, const Difference& difference) {
  Json json;
  json.object(Json::kLines).member("before", before).member("after", after);
  json.member("equal", difference.empty());
  write_lines(json, "interface", difference.interface);
  write_lines(json, "tensors", difference.state);
  write_lines(json, "modules", difference.modules);
  write_lines(json, "mutations", difference.mutations);
  write_lines(json, "nodes", difference.nodes);
  say_exactly(json.end().take());
}

void print_text(const std::string& before, const std::string& after, const Difference& difference) {
  if (difference.empty()) {
    note(fmt::format("no difference between {} and {}", before, after));
    return;
  }
  const std::string text =
      fmt::format("--- {}\n+++ {}\n{}", printable(before), printable(after), to_text(difference));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    say("{}\n", coloured_line(std::string_view(text).substr(at, end - at)));
    at = end + 1;
  }
}

}  // namespace

int diff(const DiffOptions& options) {
  Model& first = open_model(options.model);
  if (!options.base.empty()) attach(first, options.base);
  const bool own = options.other.empty();
  const Difference difference =
      own ? refx::diff(original_of(first), first) : refx::diff(first, open_model(options.other));
  const std::string before = own ? options.model + " (original)" : options.model;
  const std::string& after = own ? options.model : options.other;
  if (options.json)
    print_json(before, after, difference);
  else
    print_text(before, after, difference);
  return difference.empty() ? kDone : kNo;
}

}  // namespace refx::cli
