// SPDX-License-Identifier: Apache-2.0

// refx list: the registered transformations.

#include <fmt/format.h>

#include "commands.h"
#include "output.h"
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
  Table table({Table::left, Table::left, Table::left, Table::left, Table::left});
  table.head({"transformation", "reversible", "same results", "in all", "what it does"});
  for (const auto& t : registry())
    table.row({t->name(), t->reversible() ? "yes" : "no", t->preserves_computation() ? "yes" : "no",
               t->in_all() ? "yes" : "no", t->summary()});
  say("{}", table.text());
}

}  // namespace

int list(const ListOptions& options) {
  if (options.json)
    print_json();
  else
    print_table();
  return kDone;
}

}  // namespace refx::cli
