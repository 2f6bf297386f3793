// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "refx/history.h"

namespace refx {

// Steps of transformations that do not preserve the computation have this parameter.
inline void mark_approximate(Kwargs& parameters) {
  const bool is_taken = std::any_of(parameters.begin(), parameters.end(),
                                    [](const auto& one) { return one.first == "approximate"; });
  if (!is_taken) parameters.emplace_back("approximate", true);
}
inline bool is_approximate(const Step& step) {
  return std::find(step.parameters.begin(), step.parameters.end(),
                   std::pair<std::string, Arg>("approximate", true)) != step.parameters.end();
}

}  // namespace refx
