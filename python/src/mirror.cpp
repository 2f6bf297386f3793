#include "mirror.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/id_set.h"
#include "refx/error.h"
#include "refx/registry.h"
#include "refx/reverse.h"

namespace refx::python {

namespace {

template <class T>
const T& value_of(const Change<T>& change) {
  return *(change.after ? change.after : change.before);
}

class Touching {
 public:
  explicit Touching(const Model& model) : model_(model) {}

  void add(const Step& step) {
    for (const Edit& edit : step.edits) {
      if (const auto* change = std::get_if<Change<Node>>(&edit)) {
        if (nodes_.insert(change->id)) touched_.nodes.push_back(change->id);
      } else if (const auto* change = std::get_if<Change<StateEntry>>(&edit)) {
        if (states_.insert(change->id))
          touched_.states.emplace_back(change->id, value_of(*change).name);
      } else if (const auto& change = std::get<Change<Module>>(edit); modules_.insert(change.id)) {
        touched_.modules.emplace_back(change.id, value_of(change).name);
      }
    }
  }

  Touched take() {
    auto precedes = [&](NodeId a, NodeId b) { return model_.graph().precedes(a, b); };
    if (!std::is_sorted(touched_.nodes.begin(), touched_.nodes.end(), precedes))
      std::sort(touched_.nodes.begin(), touched_.nodes.end(), precedes);
    return std::move(touched_);
  }

 private:
  const Model& model_;
  Touched touched_;
  IdSet<Node> nodes_;
  IdSet<StateEntry> states_;
  IdSet<Module> modules_;
};

std::string label(const Step& step) {
  return fmt::format("{} at {}", step.transformation, step.site);
}

void require_reversible(const Model& model, const ReversalPlan& plan, Dependents dependents) {
  const Step& first = model.history()[plan.asked.front()];
  for (const auto& [id, causes] : plan.dependents) {
    const Step& step = model.history()[id];
    if (step.transformation == Mirror::kOthers)
      throw Error(
          fmt::format("{} cannot be reversed: the GraphModule was changed since by others "
                      "than refx, at {}; take that change back first",
                      label(first), step.site));
    if (dependents == Dependents::reapply && !lookup_transformation(step.transformation))
      throw Error(
          fmt::format("{} cannot be reversed alone: {} builds on it; reverse that first, or "
                      "with dependents='cascade'",
                      label(first), label(step)));
  }
}

}  // namespace

Mirror::Applied Mirror::apply(const Transformation& transformation, const SiteFilter& filter) {
  const std::vector<StepId> before = model_.history().ids();
  const StepId last = before.empty() ? StepId(0) : before.back();
  auto added = [&] {
    std::vector<StepId> steps;
    for (const Step& step : model_.history())
      if (step.id > last) steps.push_back(step.id);
    return steps;
  };
  Applied applied;
  try {
    applied.steps = refx::apply(model_, transformation, filter).steps;
  } catch (...) {
    refx::reverse(model_, added(), {Dependents::cascade, true, false});
    throw;
  }
  Touching touching(model_);
  for (StepId id : applied.steps) touching.add(model_.history()[id]);
  applied.touched = touching.take();
  note_tensors(applied.touched);
  return applied;
}

Touched Mirror::reverse(const std::vector<StepId>& steps, ReverseOptions options) {
  if (steps.empty()) return {};
  for (StepId id : steps)
    if (model_.history()[id].transformation == kOthers)
      throw Error(fmt::format(
          "step {} is a change by others than refx, which only they can reverse", id.value));
  const ReversalPlan plan = plan_reversal(model_, steps);
  require_reversible(model_, plan, options.dependents);
  Touching touching(model_);
  for (StepId id : plan.asked) touching.add(model_.history()[id]);
  for (const auto& [id, causes] : plan.dependents) touching.add(model_.history()[id]);
  options.redoable = false;  // the GraphModule keeps nothing of what is reversed
  const Reversal reversal = refx::reverse(model_, plan, options);
  for (const Reversal::Replaced& replaced : reversal.replaced)
    for (StepId id : replaced.reapplied) touching.add(model_.history()[id]);
  Touched touched = touching.take();
  note_tensors(touched);
  return touched;
}

Findings Mirror::find(const Transformation& transformation) const {
  return transformation.find(model_);
}

Touched Mirror::remembered() const {
  Touching touching(model_);
  for (const Step& step : model_.history()) touching.add(step);
  return touching.take();
}

}  // namespace refx::python
