#include "refx/reverse.h"

#include "refx/registry.h"
#include "transforms/apply.h"

namespace refx {

namespace {

// A step is applied again only by what made it, with the same parameters.
void reapply(Model& model, const Step& like, const AcceptSite& accept, const OnStep& on_step) {
  const Transformation* transformation = lookup_transformation(like.transformation);
  if (transformation && transformation->signature() == like.signature)
    apply_sites(model, *transformation, accept, on_step);
}

}  // namespace

Reversal reverse(Model& model, const ReversalPlan& plan, const ReverseOptions& options) {
  return undo(model, plan, options, reapply);
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
