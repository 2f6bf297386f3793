#include "lab/run/forms.h"

#include "refx/reverse.h"

namespace refx {

std::map<StepId, std::set<StepId>> built_on(const Model& model) {
  std::map<StepId, std::set<StepId>> all;
  for (StepId id : model.history().ids()) {
    all[id];
    for (StepId dependent : model.history().dependents(model, id)) {
      all[dependent].insert(id);
      // Older steps come first, so theirs are complete.
      all[dependent].insert(all[id].begin(), all[id].end());
    }
  }
  return all;
}

Model form_with(const Model& model, const std::set<StepId>& kept, Trained trained) {
  Model form = model;
  std::vector<StepId> others;
  for (StepId id : model.history().ids())
    if (!kept.count(id)) others.push_back(id);
  if (!others.empty())
    reverse(form, others,
            {.dependents = Dependents::cascade, .discard_changes = trained == Trained::discarded});
  return form;
}

}  // namespace refx
