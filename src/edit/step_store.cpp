#include "edit/step_store.h"

#include "edit/access.h"

namespace refx {

StepId StepStore::next_id() const {
  return StepId(ModelAccess::next_id(ModelAccess::history(model_)));
}

StepPtr StepStore::add(std::shared_ptr<Step> step) {
  History& history = ModelAccess::history(model_);
  std::uint32_t& next = ModelAccess::next_id(history);
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

void StepStore::index() { ModelAccess::index(ModelAccess::history(model_)); }

// What a reversed step made and nobody else needs. (What it had brought back, after an earlier step
// erased it, is that step's, or is in place again.)
template <class F>
void StepStore::for_each_leftover(const Step& step, F&& f) {
  for (const Edit& edit : step.edits)
    std::visit(
        [&]<class T>(const Change<T>& change) {
          const bool made = !change.before && change.after;
          if (made && !ModelAccess::table<T>(model_).contains(change.id) &&
              !ModelAccess::writes(ModelAccess::history(model_), edit))
            f(change.id, change.after->name);
        },
        edit);
}

void StepStore::release_names(const Step& step) {
  for_each_leftover(step,
                    [&](auto id, auto& name) { ModelAccess::release_name(model_, id, name); });
}

void StepStore::reserve_names(const Step& step) {
  for_each_leftover(step,
                    [&](auto id, auto& name) { ModelAccess::reserve_name(model_, id, name); });
}

void StepStore::purge(const Step& step) {
  release_names(step);
  for_each_leftover(step, [&](auto id, auto&) { ModelAccess::remove_slot(model_, id); });
}

void StepStore::forget() {
  std::vector<StepPtr> steps;
  for (StepId id : model_.history().ids()) steps.push_back(remove(id));
  for (const StepPtr& step : reversed()) purge(*step);
  reversed().clear();
  // Whatever is erased now was only kept for them.
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
