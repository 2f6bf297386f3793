// SPDX-License-Identifier: Apache-2.0

#include "edit/step_store.h"

#include <tuple>

#include "edit/access.h"
#include "refx/id_set.h"

namespace refx {

StepId StepStore::next_id() const {
  return StepId(ModelAccess::next_id(ModelAccess::history(model_)));
}

StepPtr StepStore::add(std::shared_ptr<Step> step) {
  History& history = ModelAccess::history(model_);
  std::uint32_t& next = ModelAccess::next_id(history);
  // A step that redo() or a file restores keeps its id.
  const bool is_new = !step->id;
  if (is_new) step->id = StepId(next);
  ModelAccess::add(history, step);
  if (is_new) ++next;
  return step;
}

StepPtr StepStore::remove(StepId id) {
  return ModelAccess::remove(ModelAccess::history(model_), id);
}

void StepStore::replace(StepPtr step) {
  ModelAccess::replace(ModelAccess::history(model_), std::move(step));
}

std::vector<StepPtr>& StepStore::reversed() const {
  return ModelAccess::reversed(ModelAccess::history(model_));
}

namespace {

// The objects of some edits.
class Written {
 public:
  void add(const std::vector<Edit>& edits) {
    for (const Edit& edit : edits)
      std::visit(
          [&](const auto& change) {
            if (change.id) set(change).insert(change.id);
          },
          edit);
  }
  template <class T>
  bool contains(const Change<T>& change) {
    return set(change).contains(change.id);
  }

 private:
  template <class T>
  IdSet<T>& set(const Change<T>&) {
    return std::get<IdSet<T>>(sets_);
  }
  std::tuple<IdSet<Node>, IdSet<StateEntry>, IdSet<Module>> sets_;
};

template <class F>
void for_each(const StepStore::ReclaimableSlots& slots, F&& f) {
  for (const Edit* edit : slots)
    std::visit([&](const auto& change) { f(change.id, change.after->name); }, *edit);
}

}  // namespace

// Only what a reversed step made. An object that it had restored, after an earlier step erased it,
// belongs to that step, or is live again.
StepStore::ReclaimableSlots StepStore::reclaimable_slots(const std::vector<StepPtr>& reversed,
                                                         const std::vector<Edit>& next) const {
  ReclaimableSlots found;
  if (reversed.empty()) return found;
  Written written;
  for (const Step& step : model_.history()) written.add(step.edits);
  written.add(next);
  for (const StepPtr& step : reversed)
    for (const Edit& edit : step->edits)
      std::visit(
          [&]<class T>(const Change<T>& change) {
            const bool made = !change.before && change.after;
            if (made && !ModelAccess::table<T>(model_).contains(change.id) &&
                !written.contains(change))
              found.push_back(&edit);
          },
          edit);
  return found;
}

void StepStore::release_names(const ReclaimableSlots& slots) {
  for_each(slots, [&](auto id, const auto& name) { ModelAccess::release_name(model_, id, name); });
}

void StepStore::reserve_names(const ReclaimableSlots& slots) {
  for_each(slots, [&](auto id, const auto& name) { ModelAccess::reserve_name(model_, id, name); });
}

void StepStore::purge(const ReclaimableSlots& slots) {
  release_names(slots);
  for_each(slots, [&](auto id, const auto&) { ModelAccess::remove_slot(model_, id); });
}

void StepStore::forget() {
  std::vector<StepPtr> steps;
  for (StepId id : model_.history().ids()) steps.push_back(remove(id));
  purge(reclaimable_slots(reversed(), {}));
  reversed().clear();
  // Erased objects were kept only so that these steps could be reversed. An object is erased by
  // several steps if one of them restored it, so that its slot may be gone already.
  for (const StepPtr& step : steps)
    for (const Edit& edit : step->edits)
      std::visit(
          [&]<class T>(const Change<T>& change) {
            const auto& value = change.before ? change.before : change.after;
            if (!value || ModelAccess::table<T>(model_).find_erased(value->name) != change.id)
              return;
            ModelAccess::release_name(model_, change.id, value->name);
            ModelAccess::remove_slot(model_, change.id);
          },
          edit);
  ModelAccess::touch(model_);
}

}  // namespace refx
