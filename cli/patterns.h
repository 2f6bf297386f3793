// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "refx/error.h"
#include "refx/transformation.h"
#include "util/shell_word.h"

namespace refx::cli {

// Does what uses the patterns of --site and --except on a model. Of one that matches nothing, says
// which option it belongs to and which command lists the sites.
template <class F>
auto with_patterns(const std::string& model, const std::vector<std::string>& transformations,
                   F&& use) try {
  return use();
} catch (const UnmatchedPattern& error) {
  std::string command = "refx inspect " + shell_word(model);
  for (const std::string& name : transformations) command += " " + shell_word(name);
  throw Error(fmt::format("{} {}", error.of() == UnmatchedPattern::Of::only ? "--site" : "--except",
                          error.problem(fmt::format("`{}` lists the sites", command))));
}

}  // namespace refx::cli
