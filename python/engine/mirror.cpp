// SPDX-License-Identifier: Apache-2.0

#include "engine/mirror.h"

#include <fmt/format.h>

#include <algorithm>

#include "refx/editor.h"
#include "refx/error.h"
#include "refx/id_set.h"
#include "refx/old_names.h"
#include "refx/registry.h"
#include "refx/reverse.h"
#include "refx/validate.h"

namespace refx::fx {

namespace {

template <class T>
const T& value_of(const Change<T>& change) {
  return *(change.after ? change.after : change.before);
}

class ChangeCollector {
 public:
  explicit ChangeCollector(const Model& model) : model_(model) {}

  void add(const Step& step) {
    for (const Edit& edit : step.edits) {
      if (const auto* change = std::get_if<Change<Node>>(&edit)) {
        if (nodes_.insert(change->id)) changed_.nodes.push_back(change->id);
      } else if (const auto* change = std::get_if<Change<StateEntry>>(&edit)) {
        if (states_.insert(change->id))
          changed_.states.emplace_back(change->id, value_of(*change).name);
      } else if (const auto& change = std::get<Change<Module>>(edit); modules_.insert(change.id)) {
        changed_.modules.emplace_back(change.id, value_of(change).name);
      }
    }
  }

  ChangedObjects take() {
    auto precedes = [&](NodeId a, NodeId b) { return model_.graph().precedes(a, b); };
    if (!std::is_sorted(changed_.nodes.begin(), changed_.nodes.end(), precedes))
      std::sort(changed_.nodes.begin(), changed_.nodes.end(), precedes);
    return std::move(changed_);
  }

 private:
  const Model& model_;
  ChangedObjects changed_;
  IdSet<Node> nodes_;
  IdSet<StateEntry> states_;
  IdSet<Module> modules_;
};

std::string label(const Step& step) {
  return fmt::format("{} at {}", step.transformation, step.site);
}

// Extends the plan to changes by others that only erased unused values, as eliminate_dead_code
// does. They cannot be reversed by themselves, but a step that wrote such a value cannot be
// reversed without them. Repeated until nothing is added: the new steps may have dependents of the
// same kind.
ReversalPlan plan_with_dead_code(Model& model, std::vector<StepId> steps) {
  for (;;) {
    ReversalPlan plan = plan_reversal(model, steps);
    const std::size_t asked = steps.size();
    for (const auto& [id, causes] : plan.dependents) {
      const Step& step = model.history()[id];
      if (step.transformation == Mirror::kOthers && only_erase_values(model, step.edits))
        steps.push_back(id);
    }
    if (steps.size() == asked) return plan;
  }
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

bool is_marked(const std::shared_ptr<const Node>& node, const std::string& mark) {
  return node && std::find(node->marks.begin(), node->marks.end(), mark) != node->marks.end();
}

std::shared_ptr<const Node> remarked(const Node& node, const std::string& from,
                                     const std::string& to) {
  auto changed = std::make_shared<Node>(node);
  std::replace(changed->marks.begin(), changed->marks.end(), from, to);
  return changed;
}

// Replaces the marks that the steps wrote by those of a Python class that derives from the
// library's transformation: `transformed` and `reverse` of that class look for its own signature.
// Edits the recorded steps, too, so that undo and redo agree with the nodes.
void remark(Model& model, const std::vector<StepId>& steps, const std::string& from,
            const std::string& to) {
  Editor quiet(model);
  IdSet<Node> marked;  // by these steps
  for (StepId id : steps) {
    Step step = model.history()[id];
    for (Edit& edit : step.edits) {
      auto* change = std::get_if<Change<Node>>(&edit);
      if (!change || !is_marked(change->after, from)) continue;
      if (is_marked(change->before, from)) {
        if (!marked.contains(change->id)) continue;
        change->before = remarked(*change->before, from, to);
      }
      marked.insert(change->id);
      change->after = remarked(*change->after, from, to);
      if (const Node* node = model.graph().find(change->id))
        quiet.set_marks(change->id, remarked(*node, from, to)->marks);
    }
    quiet.amend(std::move(step));
  }
  quiet.commit_without_step();
}

}  // namespace

Mirror::Applied Mirror::apply(const Transformation& transformation, const std::string& mark) {
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
    applied.steps = refx::apply(model_, transformation).steps;
    if (mark != transformation.signature())
      remark(model_, applied.steps, transformation.signature(), mark);
  } catch (...) {
    // The library's apply is atomic, but remarking comes after it.
    refx::reverse(model_, added(), {Dependents::cascade, true, false});
    throw;
  }
  ChangeCollector collector(model_);
  for (StepId id : applied.steps) collector.add(model_.history()[id]);
  applied.changed = collector.take();
  take_snapshots(applied.changed);
  return applied;
}

ChangedObjects Mirror::reverse(const std::vector<StepId>& steps, ReverseOptions options,
                               std::vector<Reversal::Replaced>& replaced) {
  if (steps.empty()) return {};
  for (StepId id : steps)
    if (model_.history()[id].transformation == kOthers)
      throw Error(fmt::format(
          "step {} is a change by others than refx, which only they can reverse", id.value));
  const ReversalPlan plan = plan_with_dead_code(model_, steps);
  require_reversible(model_, plan, options.dependents);
  ChangeCollector collector(model_);
  for (StepId id : plan.asked) collector.add(model_.history()[id]);
  for (const auto& [id, causes] : plan.dependents) collector.add(model_.history()[id]);
  options.redoable = false;  // the GraphModule keeps nothing of what is reversed
  replaced = refx::reverse(model_, plan, options).replaced;
  for (const Reversal::Replaced& step : replaced)
    for (StepId id : step.reapplied) collector.add(model_.history()[id]);
  ChangedObjects changed = collector.take();
  take_snapshots(changed);
  return changed;
}

Findings Mirror::find(const Transformation& transformation) const {
  return find_sites(model_, transformation);
}

std::vector<StepId> Mirror::select(std::string_view what) const {
  std::vector<StepId> steps = model_.history().select(what);
  if (steps.size() > 1)
    std::erase_if(steps, [&](StepId id) { return model_.history()[id].transformation == kOthers; });
  return steps;
}

std::vector<StepId> Mirror::steps_of(std::string_view signature) const {
  std::vector<StepId> steps;
  for (const Step& step : model_.history())
    if (same_transformation(step.signature, signature)) steps.push_back(step.id);
  return steps;
}

bool Mirror::has_steps() const {
  for (const Step& step : model_.history())
    if (step.transformation != kOthers) return true;
  return false;
}

std::vector<at::Tensor> Mirror::tensors() const {
  std::vector<at::Tensor> tensors;
  for (StateId id : model_.state()) tensors.emplace_back(model_.state().tensor(id));
  for (const Step& step : model_.history())
    for (const Edit& edit : step.edits)
      if (const auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->before)
        tensors.emplace_back(change->before->tensor);
  return tensors;
}

ChangedObjects Mirror::changed_by_steps() const {
  ChangeCollector collector(model_);
  for (const Step& step : model_.history()) collector.add(step);
  return collector.take();
}

}  // namespace refx::fx
