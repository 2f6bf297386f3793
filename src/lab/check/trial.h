// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lab/check/recipe.h"
#include "refx/rule.h"

namespace refx::checking {

// What a rule does at one instance.
struct Trial {
  enum Outcome : std::uint8_t { found, refused, missed, failed };
  Outcome outcome = found;
  std::string why = {};   // it is refused, or fails
  std::string kind = {};  // of the failure
  bool compared = false;  // the numbers were
};

Trial attempt(const Rule& rule, const Instance& instance);

}  // namespace refx::checking
