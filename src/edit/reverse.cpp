#include "refx/reverse.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "edit/carry_back.h"
#include "edit/made.h"
#include "edit/reverse_for_good.h"
#include "edit/transaction.h"
#include "ir/content.h"
#include "refx/error.h"
#include "refx/registry.h"
#include "refx/validate.h"
#include "transforms/apply.h"

namespace refx {

namespace {

using StepPtr = std::shared_ptr<const Step>;

std::string label(const std::string& transformation, const std::string& site) {
  return transformation + "  " + site;
}
std::string label(const Step& step) { return label(step.transformation, step.site); }

[[noreturn]] void refuse(const Model& model, const Plan& plan) {
  std::vector<std::string> names;
  for (const auto& [id, causes] : plan.dependents)
    names.push_back(fmt::format("step {} ({}, {})", id.value, model.history()[id].transformation,
                                model.history()[id].site));
  throw Error(fmt::format("{} build on what is to be reversed: {}; reverse them too, or let them be "
                          "applied again or cascaded",
                          names.size() == 1 ? "1 later step" : fmt::format("{} later steps", names.size()),
                          fmt::join(names, ", ")));
}

using Carried = std::unordered_map<StateId, at::TensorBase>;

std::shared_ptr<const StateEntry> original_of(const Change<StateEntry>& change, const Carried& carried) {
  if (!change.before) return nullptr;
  auto found = carried.find(change.id);
  if (found == carried.end()) {
    require_content(change.before->tensor);
    return change.before;
  }
  StateEntry entry = *change.before;
  entry.tensor = found->second;
  return std::make_shared<const StateEntry>(std::move(entry));
}

// Writes what was before a step into the model.
void undo(Transaction& transaction, const Step& step, const ReverseOptions& options) {
  const Carried carried = carried_back(transaction.model(), step, options);
  for (auto it = step.edits.rbegin(); it != step.edits.rend(); ++it)
    std::visit(
        [&]<class T>(const Change<T>& change) {
          if constexpr (std::is_same_v<T, StateEntry>)
            transaction.write(change.id, original_of(change, carried));
          else
            transaction.write(change.id, change.before);
        },
        *it);
}

// A step that is to be undone, as redo needs it: with the tensors that are there now.
std::shared_ptr<Step> for_redo(const Model& model, const Step& step) {
  auto kept = std::make_shared<Step>(step);
  for (Edit& edit : kept->edits)
    if (auto* change = std::get_if<Change<StateEntry>>(&edit))
      change->after = model.state().pointer(change->id);
  return kept;
}

// And once it is undone: with what was put back, and the versions of that.
void note_undone(const Model& model, Step& step) {
  step.made.clear();
  for (Edit& edit : step.edits)
    if (auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->before) {
      change->before = model.state().pointer(change->id);
      step.made.push_back({change->id, version_of(change->before->tensor)});
    }
}

// Everything a reversal does to the model, so that it can be taken back as a whole.
class ReversalRun {
 public:
  ReversalRun(Model& model, bool redoable)
      : transaction_(model), model_(model), redoable_(redoable) {}
  ~ReversalRun() {
    if (!done_) take_back();
  }

  void undo_all(const Plan& plan, const ReverseOptions& options) {
    std::vector<StepId> order = plan.asked;
    for (const auto& [id, causes] : plan.dependents) order.push_back(id);
    std::sort(order.rbegin(), order.rend());
    for (StepId id : order) {
      const Step& step = model_.history()[id];
      const auto kept = redoable_ ? for_redo(model_, step) : nullptr;
      undo(transaction_, step, options);
      if (kept) note_undone(model_, *kept);
      removed_.push_back(transaction_.remove_step(id));
      undone_.push_back(kept ? kept : removed_.back());
    }
    if (const auto found = problems(model_, transaction_.edits()); !found.empty())
      throw InternalError(fmt::format("reversing broke the model: {}", fmt::join(found, "; ")));
  }

  // From here on new steps may take the names of what was undone.
  void make_way() {
    earlier_ = std::exchange(transaction_.reversed(), {});
    for (const StepPtr& step : earlier_) transaction_.release_names(*step);
    for (const StepPtr& step : undone_) transaction_.release_names(*step);
    made_way_ = true;
  }

  void reapply(const Plan& plan, Reversal& result);

  // Everything stays. What was undone can be redone, unless something new stands in its place.
  void finish() {
    transaction_.keep();
    done_ = true;
    if (!new_steps_.empty() || !redoable_) {
      for (const StepPtr& step : earlier_) transaction_.purge(*step);
      for (const StepPtr& step : undone_) transaction_.purge(*step);
      return;
    }
    if (made_way_) reserve_again();
    for (StepPtr& step : undone_) transaction_.reversed().push_back(std::move(step));
  }

 private:
  void reserve_again() {
    for (const StepPtr& step : earlier_) transaction_.reserve_names(*step);
    for (const StepPtr& step : undone_) transaction_.reserve_names(*step);
    transaction_.reversed() = std::move(earlier_);
  }

  void take_back() {
    for (auto it = new_steps_.rbegin(); it != new_steps_.rend(); ++it) {
      Transaction once(model_);
      const StepPtr step = once.remove_step(*it);
      undo(once, *step, {.dependents = Dependents::cascade, .discard_changes = true});
      once.keep();
      once.purge(*step);
    }
    if (made_way_) reserve_again();
    transaction_.rollback();
    for (auto it = removed_.rbegin(); it != removed_.rend(); ++it)
      transaction_.add_step(std::const_pointer_cast<Step>(*it));
  }

  Transaction transaction_;
  Model& model_;
  std::vector<StepPtr> undone_;   // newest first, as redo needs them
  std::vector<StepPtr> removed_;  // the same steps as they stood in the history
  std::vector<StepPtr> earlier_;  // what could be redone before
  std::vector<StepId> new_steps_;
  bool redoable_, made_way_ = false, done_ = false;
};

// Every node that a step, or a step it builds on, wrote.
void collect_nodes(const std::map<StepId, StepPtr>& steps, const Plan& plan, StepId id,
                   std::set<StepId>& seen, std::vector<NodeId>& nodes) {
  if (!seen.insert(id).second) return;
  for (const Edit& edit : steps.at(id)->edits)
    if (const auto* change = std::get_if<Change<Node>>(&edit)) nodes.push_back(change->id);
  if (auto it = plan.dependents.find(id); it != plan.dependents.end())
    for (StepId cause : it->second) collect_nodes(steps, plan, cause, seen, nodes);
}

void ReversalRun::reapply(const Plan& plan, Reversal& result) {
  std::map<StepId, StepPtr> steps;
  std::set<std::string> unwanted;  // what was asked to be gone is not to come back
  for (const StepPtr& step : removed_) {
    steps.emplace(step->id, step);
    if (plan.is_asked(step->id)) unwanted.insert(label(*step));
  }

  // Runs of dependents of one transformation are found in one pass.
  for (auto it = plan.dependents.begin(); it != plan.dependents.end();) {
    const Step& first = *steps.at(it->first);
    const Transformation* transformation = lookup_transformation(first.transformation);
    if (transformation && transformation->signature() != first.signature) transformation = nullptr;
    std::unordered_map<NodeId, std::size_t> concerned;  // node -> index in result.replaced
    for (; it != plan.dependents.end() && steps.at(it->first)->signature == first.signature; ++it) {
      const Step& step = *steps.at(it->first);
      std::set<StepId> seen;
      std::vector<NodeId> nodes;
      collect_nodes(steps, plan, step.id, seen, nodes);
      for (NodeId node : nodes) concerned.emplace(node, result.replaced.size());
      result.replaced.push_back({step.id, label(step), {}});
    }
    if (!transformation) continue;
    auto owner = [&](const Site& site) -> const std::size_t* {
      if (unwanted.count(label(first.transformation, site.name))) return nullptr;
      for (NodeId node : site.nodes)
        if (auto found = concerned.find(node); found != concerned.end()) return &found->second;
      return nullptr;
    };
    apply_sites(model_, *transformation, [&](const Site& site) { return owner(site) != nullptr; },
                [&](const Site& site, StepId id) {
                  new_steps_.push_back(id);
                  result.replaced[*owner(site)].reapplied.push_back(id);
                });
  }
}

}  // namespace

namespace {

Reversal carry_out(Model& model, const Plan& plan, ReverseOptions options, bool redoable) {
  if (options.dependents == Dependents::refuse && !plan.dependents.empty()) refuse(model, plan);
  Reversal result;
  ReversalRun run(model, redoable);
  run.undo_all(plan, options);
  result.reversed.assign(plan.asked.rbegin(), plan.asked.rend());
  if (options.dependents == Dependents::reapply && !plan.dependents.empty()) {
    run.make_way();
    run.reapply(plan, result);
  } else {
    for (const auto& [id, causes] : plan.dependents) result.reversed.push_back(id);
    std::sort(result.reversed.rbegin(), result.reversed.rend());
  }
  run.finish();
  return result;
}

}  // namespace

Reversal reverse(Model& model, const std::vector<StepId>& steps, ReverseOptions options) {
  return carry_out(model, plan_reversal(model, steps), options, true);
}

Reversal reverse_for_good(Model& model, const Plan& plan, ReverseOptions options) {
  return carry_out(model, plan, options, false);
}

Reversal reverse(Model& model, StepId step, ReverseOptions options) {
  return reverse(model, std::vector<StepId>{step}, options);
}

Reversal reverse(Model& model, std::string_view what, ReverseOptions options) {
  return reverse(model, model.history().select(what), options);
}

Reversal reverse_all(Model& model, ReverseOptions options) {
  return reverse(model, model.history().ids(), options);
}

bool redo(Model& model) {
  if (model.history().reversed().empty()) return false;
  Transaction transaction(model);
  auto step = std::make_shared<Step>(*transaction.reversed().back());
  for (const Step::Made& made : step->made)
    if (const StateEntry& entry = model.state()[made.state]; version_of(entry.tensor) != made.version)
      throw Error(fmt::format("step {} ({}, {}) cannot be redone: '{}' was changed since it was "
                              "reversed; apply {} again",
                              step->id.value, step->transformation, step->site, entry.name,
                              step->transformation));
  for (const Edit& edit : step->edits)
    std::visit([&](const auto& change) { transaction.write(change.id, change.after); }, edit);
  if (const auto found = problems(model, transaction.edits()); !found.empty())
    throw InternalError(fmt::format("redo broke the model: {}", fmt::join(found, "; ")));
  transaction.keep();
  step->made = made_by(step->edits);
  transaction.reversed().pop_back();
  transaction.add_step(std::move(step));
  return true;
}

void forget(Model& model) { Transaction(model).forget(); }

}  // namespace refx
