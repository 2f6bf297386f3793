// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "refx/error.h"
#include "refx/transformation.h"
#include "util/shell_word.h"

namespace refx::cli {

// Calls `use`, which filters sites by the patterns of --site and --exclude. The error for a pattern
// that matches nothing names the option and the command that lists the sites.
template <class F>
auto with_patterns(const std::string& model, const std::vector<std::string>& transformations,
                   F&& use) try {
  return use();
} catch (const UnmatchedPattern& error) {
  std::string command = "refx inspect " + shell_word(model);
  for (const std::string& name : transformations) command += " " + shell_word(name);
  throw Error(fmt::format("{} {}",
                          error.of() == UnmatchedPattern::Of::site ? "--site" : "--exclude",
                          error.problem(fmt::format("`{}` lists the sites", command))));
}

}  // namespace refx::cli
