// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "ir/dependence.h"
#include "refx/undo.h"

namespace refx {

bool ReversalPlan::is_asked(StepId id) const {
  return std::binary_search(asked.begin(), asked.end(), id);
}

ReversalPlan plan_reversal(Model& model, const std::vector<StepId>& steps) {
  const History& history = model.history();
  ReversalPlan plan;
  for (StepId id : steps) plan.asked.push_back(history[id].id);
  std::sort(plan.asked.begin(), plan.asked.end());
  plan.asked.erase(std::unique(plan.asked.begin(), plan.asked.end()), plan.asked.end());
  if (plan.asked.empty()) return plan;

  // Only later steps can depend on a step, and only steps that were not requested matter. So the
  // pass starts at the first requested step and ends with the last other one: reversing everything,
  // or the last step, needs no analysis.
  Dependence dependence(model.graph());
  std::size_t others =
      std::distance(history.from(plan.asked.front()), history.end()) - plan.asked.size();
  for (auto step = history.from(plan.asked.front()); others > 0; ++step) {
    if (plan.is_asked(step->id)) {
      dependence.add(*step, Dependence::As::asked);
      continue;
    }
    --others;
    std::vector<StepId> causes = dependence.causes(*step);
    if (causes.empty()) continue;
    dependence.add(*step, Dependence::As::dependent);
    plan.dependents.emplace_hint(plan.dependents.end(), step->id, std::move(causes));
  }
  return plan;
}

}  // namespace refx
