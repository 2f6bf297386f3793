#include <algorithm>

#include "edit/step_store.h"
#include "refx/undo.h"

namespace refx {

namespace {

// Only later steps can depend on one: where all of them are asked for, there is nothing to find
// out.
bool are_the_last(const History& history, const std::vector<StepId>& steps) {
  const std::vector<StepId> all = history.ids();
  return std::equal(steps.rbegin(), steps.rend(), all.rbegin());
}

}  // namespace

bool ReversalPlan::is_asked(StepId id) const {
  return std::binary_search(asked.begin(), asked.end(), id);
}

ReversalPlan plan_reversal(Model& model, const std::vector<StepId>& steps) {
  ReversalPlan plan;
  for (StepId id : steps) plan.asked.push_back(model.history()[id].id);
  std::sort(plan.asked.begin(), plan.asked.end());
  plan.asked.erase(std::unique(plan.asked.begin(), plan.asked.end()), plan.asked.end());
  if (are_the_last(model.history(), plan.asked)) return plan;

  StepStore(model).index();
  std::vector<StepId> queue = plan.asked;
  for (std::size_t i = 0; i < queue.size(); ++i)
    for (StepId dependent : model.history().dependents(model, queue[i])) {
      if (plan.is_asked(dependent)) continue;
      auto& causes = plan.dependents[dependent];
      if (causes.empty()) queue.push_back(dependent);
      causes.push_back(queue[i]);
    }
  return plan;
}

}  // namespace refx
