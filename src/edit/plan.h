#pragma once

#include <map>
#include <vector>

#include "refx/model.h"

namespace refx {

// What reversing some steps takes along.
struct Plan {
  std::vector<StepId> asked;                         // in order, each once
  std::map<StepId, std::vector<StepId>> dependents;  // other steps -> the steps they build on

  bool is_asked(StepId id) const;
};

// Throws Error if a step is not live.
Plan plan_reversal(Model& model, const std::vector<StepId>& steps);

}  // namespace refx
