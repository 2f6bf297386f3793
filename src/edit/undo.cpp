// SPDX-License-Identifier: Apache-2.0

#include "refx/undo.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "edit/carry_back.h"
#include "edit/step_store.h"
#include "edit/transaction.h"
#include "edit/undo_unread.h"
#include "ir/content.h"
#include "refx/error.h"
#include "refx/old_names.h"
#include "refx/validate.h"

namespace refx {

namespace {

std::string label(const std::string& transformation, const std::string& site) {
  return transformation + "  " + site;
}
std::string label(const Step& step) { return label(step.transformation, step.site); }

[[noreturn]] void refuse(const Model& model, const ReversalPlan& plan) {
  std::vector<std::string> names;
  for (const auto& [id, causes] : plan.dependents)
    names.push_back(fmt::format("step {} ({}, {})", id.value, model.history()[id].transformation,
                                model.history()[id].site));
  throw Error(
      fmt::format("{} build on what is to be reversed: {}; reverse them too, or let them be "
                  "applied again or cascaded",
                  names.size() == 1 ? "1 later step" : fmt::format("{} later steps", names.size()),
                  fmt::join(names, ", ")));
}

using Carried = std::unordered_map<StateId, at::TensorBase>;

std::shared_ptr<const StateEntry> original_of(const Change<StateEntry>& change,
                                              const Carried& carried, bool unread) {
  if (!change.before) return nullptr;
  auto found = carried.find(change.id);
  if (found == carried.end()) {
    if (!unread) require_content(change.before->tensor);
    return change.before;
  }
  StateEntry entry = *change.before;
  entry.tensor = found->second;
  return std::make_shared<const StateEntry>(std::move(entry));
}

// Restores the values from before a step. In reverse order, so that what a node refers to exists
// when the node is written.
void write_back(Transaction& transaction, const Step& step, const ReverseOptions& options,
                bool unread) {
  const Carried carried = carried_back(transaction.model(), step, options);
  for (auto it = step.edits.rbegin(); it != step.edits.rend(); ++it)
    std::visit(
        [&]<class T>(const Change<T>& change) {
          if constexpr (std::is_same_v<T, StateEntry>)
            transaction.write(change.id, original_of(change, carried, unread));
          else
            transaction.write(change.id, change.before);
        },
        *it);
}

// Returns true if the state holds the same entry objects that the step left there, or that were
// there before it. Pointers suffice: every write stores a new entry.
bool is_in_place(const Model& model, const Step& step,
                 std::shared_ptr<const StateEntry> Change<StateEntry>::*entry) {
  return std::all_of(step.edits.begin(), step.edits.end(), [&](const Edit& edit) {
    const auto* change = std::get_if<Change<StateEntry>>(&edit);
    return !change || change->*entry == model.state().pointer(change->id);
  });
}

// The step for a later redo(), with the tensors that are in the state now: they may have been
// trained or moved to another device since the step made them.
std::shared_ptr<Step> for_redo(const Model& model, const Step& step) {
  auto kept = std::make_shared<Step>(step);
  for (Edit& edit : kept->edits)
    if (auto* change = std::get_if<Change<StateEntry>>(&edit))
      change->after = model.state().pointer(change->id);
  return kept;
}

// Completes for_redo() once the step is undone, with the restored tensors.
void note_undone(const Model& model, Step& step) {
  for (Edit& edit : step.edits)
    if (auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->before)
      change->before = model.state().pointer(change->id);
}

std::vector<TensorStamp> stamps_of_originals(const Step& step) {
  std::vector<TensorStamp> stamps;
  stamps.reserve(std::count_if(step.edits.begin(), step.edits.end(), [](const Edit& edit) {
    return std::holds_alternative<Change<StateEntry>>(edit);
  }));
  for (const Edit& edit : step.edits)
    if (const auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->before)
      stamps.push_back(stamp_of(change->id, change->before->tensor));
  return stamps;
}

// All changes that a reversal makes to the model, so that they can be rolled back as a whole. The
// Transaction rolls back the objects; take_back() also restores steps, names and slots.
class ReversalRun {
 public:
  ReversalRun(Model& model, bool redoable, bool unread)
      : transaction_(model),
        steps_(model),
        model_(model),
        first_new_(steps_.next_id()),
        redoable_(redoable),
        unread_(unread) {}
  ~ReversalRun() {
    if (!done_) take_back();
  }

  void undo_all(const ReversalPlan& plan, const ReverseOptions& options) {
    std::vector<StepId> order = plan.asked;
    for (const auto& [id, causes] : plan.dependents) order.push_back(id);
    // Newest first: each step is undone in the state that it left, apart from independent steps.
    std::sort(order.rbegin(), order.rend());
    // Memory is reserved before the first change, so that a failure cannot leave a step half
    // undone.
    removed_.reserve(order.size());
    undone_.reserve(order.size());
    stamps_.reserve(order.size());
    std::size_t edits = 0;
    for (StepId id : order) edits += model_.history()[id].edits.size();
    transaction_.reserve(edits);
    for (StepId id : order) undo_one(id, options);
    if (const auto found = problems(model_, transaction_.edits()); !found.empty())
      throw Error(fmt::format(
          "these steps cannot be reversed without others: {}; reverse the later steps too",
          fmt::join(found, "; ")));
  }

  // Makes the names of objects that only undone steps made available to new steps. A layer that is
  // merged again then gets the same name as before.
  void release_names() {
    std::vector<StepPtr> all = steps_.reversed();
    all.insert(all.end(), undone_.begin(), undone_.end());
    reclaimable_ = steps_.reclaimable_slots(all, {});
    earlier_ = std::exchange(steps_.reversed(), {});
    steps_.release_names(reclaimable_);
    names_released_ = true;
  }

  void reapply(const ReversalPlan& plan, const Reapply& again, Reversal& result);

  // Keeps all changes. The undone steps can be redone, unless new steps replace them.
  void finish() {
    // Everything that allocates comes before keep(). If memory runs out there, the destructor still
    // rolls back.
    steps_.reversed().reserve(steps_.reversed().size() + earlier_.size() + undone_.size());
    const bool way_back = redoable_ && new_steps().empty();
    if (!way_back && !names_released_) reclaimable_ = steps_.reclaimable_slots(undone_, {});
    if (way_back && names_released_) reserve_again();
    transaction_.keep();
    done_ = true;
    if (!way_back) return steps_.purge(reclaimable_);
    for (std::size_t i = 0; i < undone_.size(); ++i) {
      const_cast<Step&>(*undone_[i]).stamps = std::move(stamps_[i]);
      steps_.reversed().push_back(std::move(undone_[i]));
    }
  }

 private:
  void undo_one(StepId id, const ReverseOptions& options) {
    const Step& step = model_.history()[id];
    // Most steps are still as they were recorded. Such a step is kept for redo() without a copy.
    const bool as_left = is_in_place(model_, step, &Change<StateEntry>::after);
    auto kept = redoable_ && !as_left ? for_redo(model_, step) : nullptr;
    write_back(transaction_, step, options, unread_);
    removed_.push_back(steps_.remove(id));
    const bool shared = removed_.back().use_count() > 1;
    if (redoable_ && as_left && (shared || !is_in_place(model_, step, &Change<StateEntry>::before)))
      kept = std::make_shared<Step>(step);
    if (kept) note_undone(model_, *kept);
    undone_.push_back(kept ? std::move(kept) : removed_.back());
    stamps_.push_back(redoable_ ? stamps_of_originals(*undone_.back())
                                : std::vector<TensorStamp>());
  }

  std::vector<StepId> new_steps() const {  // newest first
    std::vector<StepId> ids;
    for (auto it = model_.history().from(first_new_); it != model_.history().end(); ++it)
      ids.push_back(it->id);
    std::reverse(ids.begin(), ids.end());
    return ids;
  }

  void reserve_again() {
    steps_.reserve_names(reclaimable_);
    for (StepPtr& step : earlier_) steps_.reversed().push_back(std::move(step));
    earlier_.clear();
    names_released_ = false;
  }

  void take_back() {
    std::vector<StepPtr> taken;
    // First the steps that were applied again, which built on the result of undoing. They are not
    // in transaction_: each was committed by itself.
    for (const StepId id : new_steps()) {
      Transaction once(model_);
      taken.push_back(steps_.remove(id));
      for (const Edit& edit : taken.back()->edits)
        std::visit([&](const auto& change) { once.write(change.id, change.before); }, edit);
      once.keep();
    }
    steps_.purge(steps_.reclaimable_slots(taken, {}));
    if (names_released_) reserve_again();
    transaction_.rollback();
    // Oldest first, as they were undone newest first.
    for (auto it = removed_.rbegin(); it != removed_.rend(); ++it)
      steps_.add(std::const_pointer_cast<Step>(*it));
  }

  Transaction transaction_;
  StepStore steps_;
  Model& model_;
  std::vector<StepPtr> undone_;                   // newest first, as redo needs them
  std::vector<StepPtr> removed_;                  // the same steps as they stood in the history
  std::vector<std::vector<TensorStamp>> stamps_;  // of undone_, once everything stays
  std::vector<StepPtr> earlier_;                  // what could be redone before
  StepStore::ReclaimableSlots reclaimable_;       // of both
  StepId first_new_;                              // of the steps that are applied again
  bool redoable_, unread_, names_released_ = false, done_ = false;
};

// Returns the nodes that a step wrote, and those that the steps it depends on wrote. `seen` holds
// the steps whose nodes were returned before, so that each node belongs to the first step.
std::vector<NodeId> nodes_behind(const std::map<StepId, StepPtr>& steps, const ReversalPlan& plan,
                                 StepId id, std::unordered_set<StepId>& seen) {
  std::vector<NodeId> nodes;
  std::vector<StepId> waiting = {id};
  while (!waiting.empty()) {
    const StepId next = waiting.back();
    waiting.pop_back();
    if (!seen.insert(next).second) continue;
    for (const Edit& edit : steps.at(next)->edits)
      if (const auto* change = std::get_if<Change<Node>>(&edit)) nodes.push_back(change->id);
    if (auto it = plan.dependents.find(next); it != plan.dependents.end())
      waiting.insert(waiting.end(), it->second.begin(), it->second.end());
  }
  return nodes;
}

void ReversalRun::reapply(const ReversalPlan& plan, const Reapply& again, Reversal& result) {
  std::map<StepId, StepPtr> steps;
  // Labels of the requested steps: applying a dependent again must not bring one of them back.
  std::set<std::string> unwanted;
  for (const StepPtr& step : removed_) {
    steps.emplace(step->id, step);
    if (plan.is_asked(step->id))
      unwanted.insert(label(std::string(current_name(step->transformation)), step->site));
  }

  // A search over the whole model for each dependent step would take quadratic time. So consecutive
  // dependents of one transformation share one search, and each site that it finds is assigned to
  // the dependent step that wrote one of its nodes.
  for (auto it = plan.dependents.begin(); it != plan.dependents.end();) {
    const Step& first = *steps.at(it->first);
    std::unordered_map<NodeId, std::size_t> concerned;  // node -> first index in result.replaced
    std::unordered_set<StepId> seen;
    for (; it != plan.dependents.end() &&
           same_transformation(steps.at(it->first)->signature, first.signature);
         ++it) {
      const Step& step = *steps.at(it->first);
      for (NodeId node : nodes_behind(steps, plan, step.id, seen))
        concerned.emplace(node, result.replaced.size());
      result.replaced.push_back({.id = step.id, .label = label(step)});
    }
    if (!again) continue;
    auto owner = [&](const Site& site) -> const std::size_t* {
      if (unwanted.count(label(std::string(current_name(first.transformation)), site.name)))
        return nullptr;
      for (NodeId node : site.nodes)
        if (auto found = concerned.find(node); found != concerned.end()) return &found->second;
      return nullptr;
    };
    again(
        model_, first, [&](const Site& site) { return owner(site) != nullptr; },
        [&](const Site& site, StepId id) {
          result.replaced[*owner(site)].reapplied.push_back(id);
        });
  }
}

Reversal undo(Model& model, const ReversalPlan& plan, const ReverseOptions& options,
              const Reapply& reapply, bool unread) {
  if (options.dependents == Dependents::refuse && !plan.dependents.empty()) refuse(model, plan);
  Reversal result;
  ReversalRun run(model, options.redoable, unread);
  run.undo_all(plan, options);
  result.reversed.assign(plan.asked.rbegin(), plan.asked.rend());
  if (options.dependents == Dependents::reapply && !plan.dependents.empty()) {
    run.release_names();
    run.reapply(plan, reapply, result);
  } else {
    for (const auto& [id, causes] : plan.dependents) result.reversed.push_back(id);
    std::sort(result.reversed.rbegin(), result.reversed.rend());
  }
  run.finish();
  return result;
}

}  // namespace

Reversal undo(Model& model, const ReversalPlan& plan, const ReverseOptions& options,
              const Reapply& reapply) {
  return undo(model, plan, options, reapply, false);
}

void undo_unread(Model& model, const ReversalPlan& plan, const ReverseOptions& options) {
  undo(model, plan, options, {}, true);
}

bool redo(Model& model) {
  if (model.history().reversed().empty()) return false;
  Transaction transaction(model);
  StepStore steps(model);
  auto step = std::make_shared<Step>(*steps.reversed().back());
  for (const TensorStamp& stamp : step->stamps)
    if (const StateEntry& entry = model.state()[stamp.state]; is_changed(stamp, entry.tensor))
      throw Error(fmt::format(
          "step {} ({}, {}) cannot be redone: '{}' was changed since it was "
          "reversed; apply {} again",
          step->id.value, step->transformation, step->site, entry.name, step->transformation));
  for (const Edit& edit : step->edits)
    std::visit([&](const auto& change) { transaction.write(change.id, change.after); }, edit);
  if (const auto found = problems(model, transaction.edits()); !found.empty())
    // Not the user's mistake: a model only offers steps to redo() that still apply to it.
    throw InternalError(fmt::format("redo broke the model: {}", fmt::join(found, "; ")));
  step->stamps = stamps_of(step->edits);
  steps.add(std::move(step));
  transaction.keep();
  steps.reversed().pop_back();
  return true;
}

void forget(Model& model) { StepStore(model).forget(); }

}  // namespace refx
