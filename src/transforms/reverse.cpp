// SPDX-License-Identifier: Apache-2.0

#include "refx/reverse.h"

#include <set>

#include "refx/old_names.h"
#include "refx/registry.h"
#include "transforms/apply.h"

namespace refx {

const Transformation* maker_of(const Step& step) {
  const Transformation* transformation = lookup_transformation(step.transformation);
  return transformation && same_transformation(transformation->signature(), step.signature)
             ? transformation
             : nullptr;
}

namespace {

// A step is applied again only by what made it.
void reapply(Model& model, const Step& like, const AcceptSite& accept, const OnStep& on_step) {
  if (const Transformation* transformation = maker_of(like))
    apply_sites(model, *transformation, accept, on_step);
}

}  // namespace

Reversal reverse(Model& model, const ReversalPlan& plan, const ReverseOptions& options) {
  std::set<StepId> unknown;
  for (const auto& [id, causes] : plan.dependents)
    if (!maker_of(model.history()[id])) unknown.insert(id);
  Reversal reversal = undo(model, plan, options, reapply);
  for (Reversal::Replaced& replaced : reversal.replaced)
    replaced.known = !unknown.contains(replaced.id);
  return reversal;
}

Reversal reverse(Model& model, const std::vector<StepId>& steps, const ReverseOptions& options) {
  return reverse(model, plan_reversal(model, steps), options);
}

Reversal reverse(Model& model, StepId step, const ReverseOptions& options) {
  return reverse(model, std::vector<StepId>{step}, options);
}

Reversal reverse(Model& model, std::string_view what, const ReverseOptions& options) {
  return reverse(model, model.history().select(what), options);
}

Reversal reverse_all(Model& model, const ReverseOptions& options) {
  return reverse(model, model.history().ids(), options);
}

}  // namespace refx
