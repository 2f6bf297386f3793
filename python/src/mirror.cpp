#include "mirror.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "edit/transaction.h"
#include "refx/error.h"
#include "refx/registry.h"

namespace refx::python {

namespace {

class Touching {
 public:
  void add(const Step& step) {
    for (const Edit& edit : step.edits) {
      if (const auto* change = std::get_if<Change<Node>>(&edit)) nodes_.insert(change->id);
      if (const auto* change = std::get_if<Change<StateEntry>>(&edit))
        states_.insert((change->after ? change->after : change->before)->name);
      if (const auto* change = std::get_if<Change<Module>>(&edit))
        modules_.insert((change->after ? change->after : change->before)->name);
    }
  }

  Touched in(const Graph& graph) const {
    Touched touched{{nodes_.begin(), nodes_.end()},
                    {states_.begin(), states_.end()},
                    {modules_.begin(), modules_.end()}};
    std::sort(touched.nodes.begin(), touched.nodes.end(),
              [&](NodeId a, NodeId b) { return graph.precedes(a, b); });
    return touched;
  }

 private:
  std::unordered_set<NodeId> nodes_;
  std::set<std::string> states_, modules_;
};

// Nothing is redone here, so what was reversed need not keep its names.
void drop_reversed(Model& model) {
  Transaction transaction(model);
  for (const auto& step : std::exchange(transaction.reversed(), {})) transaction.purge(*step);
}

std::string label(const Step& step) { return fmt::format("{} at {}", step.transformation, step.site); }

// The steps that reversing these would take along.
std::set<StepId> closure(const Model& model, const std::vector<StepId>& steps) {
  std::set<StepId> all(steps.begin(), steps.end());
  std::vector<StepId> queue(steps.begin(), steps.end());
  for (std::size_t i = 0; i < queue.size(); ++i)
    for (StepId dependent : model.history().dependents(model, queue[i]))
      if (all.insert(dependent).second) queue.push_back(dependent);
  return all;
}

void require_reversible(const Model& model, const std::vector<StepId>& steps,
                        const std::set<StepId>& all, Dependents dependents) {
  const std::set<StepId> asked(steps.begin(), steps.end());
  const Step& first = model.history()[*asked.begin()];
  for (StepId id : all) {
    if (asked.count(id)) continue;
    const Step& step = model.history()[id];
    if (step.transformation == Mirror::kOthers)
      throw Error(fmt::format("{} cannot be reversed: the GraphModule was changed since by others "
                              "than refx, at {}; take that change back first",
                              label(first), step.site));
    if (dependents == Dependents::reapply && !lookup_transformation(step.transformation))
      throw Error(fmt::format("{} cannot be reversed alone: {} builds on it; reverse that first, or "
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
  try {
    refx::apply(model_, transformation, filter);
  } catch (...) {
    refx::reverse(model_, added(), {Dependents::cascade, true});
    drop_reversed(model_);
    throw;
  }
  Applied applied;
  applied.steps = added();
  Touching touching;
  for (StepId id : applied.steps) touching.add(model_.history()[id]);
  applied.touched = touching.in(model_.graph());
  note_tensors();
  return applied;
}

Touched Mirror::reverse(const std::vector<StepId>& steps, ReverseOptions options) {
  if (steps.empty()) return {};
  for (StepId id : steps)
    if (model_.history()[id].transformation == kOthers)
      throw Error(fmt::format("step {} is a change by others than refx, which only they can reverse",
                              id.value));
  const std::set<StepId> all = closure(model_, steps);
  require_reversible(model_, steps, all, options.dependents);
  Touching touching;
  for (StepId id : all) touching.add(model_.history()[id]);
  const Reversal reversal = refx::reverse(model_, steps, options);
  for (const Reversal::Replaced& replaced : reversal.replaced)
    for (StepId id : replaced.reapplied) touching.add(model_.history()[id]);
  const Touched touched = touching.in(model_.graph());
  drop_reversed(model_);
  note_tensors();
  return touched;
}

Findings Mirror::find(const Transformation& transformation) const {
  return transformation.find(model_);
}

Touched Mirror::remembered() const {
  Touching touching;
  for (const Step& step : model_.history()) touching.add(step);
  return touching.in(model_.graph());
}

}  // namespace refx::python
