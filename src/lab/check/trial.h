// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lab/check/recipe.h"
#include "refx/rule.h"

namespace refx::checking {

// The result of a rule on one instance.
struct RuleTrial {
  enum Outcome : std::uint8_t { found, refused, missed, failed };
  Outcome outcome = found;
  std::string why = {};   // of a refusal or a failure
  std::string kind = {};  // of failure, to shrink an instance without changing its failure
  bool compared = false;  // verify() gave a verdict on the numbers
};

RuleTrial attempt(const Rule& rule, const Instance& instance);

}  // namespace refx::checking
