// SPDX-License-Identifier: Apache-2.0

// refx list: lists the registered transformations, or the reasons for refusals.

#include <fmt/format.h>

#include "commands.h"
#include "output.h"
#include "refx/reason.h"
#include "refx/registry.h"
#include "util/json_writer.h"

namespace refx::cli {

namespace {

void print_json() {
  Json json;
  json.array(Json::kLines);
  for (const auto& t : registry())
    json.object()
        .member("name", t->name())
        .member("summary", t->summary())
        .member("reversible", t->reversible())
        .member("preserves_computation", t->preserves_computation())
        .member("in_all", t->in_all())
        .end();
  say_exactly(json.end().take());
}

void print_table() {
  TextTable table;
  table.head({"transformation", "reversible", "same results", "in all", "what it does"});
  for (const auto& t : registry())
    table.row({t->name(), t->reversible() ? "yes" : "no", t->preserves_computation() ? "yes" : "no",
               t->in_all() ? "yes" : "no", t->summary()});
  say_table(table);
}

void print_reasons_json() {
  Json json;
  json.array(Json::kLines);
  for (const ReasonInfo& reason : all_reasons()) {
    const ReasonSection& section = section_of(reason);
    json.object()
        .member("code", reason.code)
        .member("section", section.title)
        .member("reason", reason.text)
        .member("meaning", section.meaning)
        .member("example", section.example)
        .member("what_to_do", reason.advice.empty() ? section.advice : reason.advice)
        .end();
  }
  say_exactly(json.end().take());
}

void print_reasons() {
  TextTable table;
  table.head({"code", "reason"});
  for (const ReasonInfo& reason : all_reasons()) table.row({reason.code, std::string(reason.text)});
  say_table(table);
}

}  // namespace

int list(const ListOptions& options) {
  if (options.reasons)
    options.json ? print_reasons_json() : print_reasons();
  else
    options.json ? print_json() : print_table();
  return kDone;
}

}  // namespace refx::cli
