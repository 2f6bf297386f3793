// SPDX-License-Identifier: Apache-2.0

#include "lab/run/forms.h"

#include <algorithm>

#include "book/higher_order.h"
#include "ir/dependence.h"
#include "refx/reverse.h"
#include "refx/transforms.h"

namespace refx {

std::map<StepId, std::set<StepId>> built_on(const Model& model) {
  std::map<StepId, std::set<StepId>> all;
  Dependence dependence(model.graph());
  for (const Step& step : model.history()) {
    std::set<StepId>& behind = all[step.id];
    for (StepId cause : dependence.causes(step)) {
      behind.insert(cause);
      behind.insert(all[cause].begin(), all[cause].end());
    }
    dependence.add(step, Dependence::As::dependent);
  }
  return all;
}

Model with_regions_inlined(const Model& model) {
  const Graph& graph = model.graph();
  if (std::none_of(graph.begin(), graph.end(),
                   [&](NodeId id) { return book::is_higher_order(graph[id]); }))
    return model;
  Model copy = model;
  forget(copy);
  apply(copy, InlineSubgraphs());
  forget(copy);
  return copy;
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
