// refx list: the registered transformations.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "commands.h"
#include "output.h"
#include "refx/registry.h"

namespace refx::cli {

namespace {

void print_json() {
  std::vector<std::string> objects;
  for (const auto& t : registry())
    objects.push_back(fmt::format(
        R"(  {{"name": {}, "summary": {}, "reversible": {}, "preserves_computation": {}}})",
        json_string(t->name()), json_string(t->summary()), t->reversible(),
        t->preserves_computation()));
  fmt::print("[\n{}\n]\n", fmt::join(objects, ",\n"));
}

void print_table() {
  std::size_t width = 0;
  for (const auto& t : registry()) width = std::max(width, t->name().size());
  const std::string head =
      fmt::format("{:<{}}  reversible  same results  what it does", "transformation", width);
  fmt::print("{}\n", heading(head));
  for (const auto& t : registry())
    fmt::print("{:<{}}  {:<10}  {:<12}  {}\n", t->name(), width, t->reversible() ? "yes" : "no",
               t->preserves_computation() ? "yes" : "no", t->summary());
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
