// SPDX-License-Identifier: Apache-2.0

#include "refx/restore.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "edit/access.h"
#include "edit/broken_references.h"
#include "edit/check_step.h"
#include "edit/step_store.h"
#include "edit/transaction.h"
#include "refx/error.h"
#include "util/limits.h"

namespace refx {

template <class T>
void Restorer::reserve(std::size_t size) {
  ModelAccess::reserve<T>(model_, size);
}
template void Restorer::reserve<Node>(std::size_t);
template void Restorer::reserve<StateEntry>(std::size_t);
template void Restorer::reserve<Module>(std::size_t);

template <class T>
Id<T> Restorer::add_slot(Id<T> where) {
  return ModelAccess::insert_slot(model_, where);
}
template NodeId Restorer::add_slot(NodeId);
template StateId Restorer::add_slot(StateId);
template ModuleId Restorer::add_slot(ModuleId);

template <class T>
void Restorer::put(Id<T> id, std::shared_ptr<const T> value) {
  check_value(model_, *value);
  ModelAccess::reserve_name(model_, id, value->name);
  ModelAccess::exchange(model_, id, std::move(value));
  ModelAccess::touch(model_);
  if constexpr (std::is_same_v<T, Node>)
    if (const auto found = broken_references(model_, id); !found.empty())
      throw Error(found.front());
}
template void Restorer::put(NodeId, std::shared_ptr<const Node>);
template void Restorer::put(StateId, std::shared_ptr<const StateEntry>);
template void Restorer::put(ModuleId, std::shared_ptr<const Module>);

Numerics Restorer::unstated_numerics(const Kwargs& parameters) {
  return std::ranges::find(parameters, std::pair<std::string, Arg>("approximate", true)) !=
                 parameters.end()
             ? Numerics::approximate
             : Numerics::preserved;
}

namespace {

// An object has the same name before and after a change.
template <class T>
const Name* name_in(const Change<T>& change) {
  const auto& value = change.after ? change.after : change.before;
  return value ? &value->name : nullptr;
}

void reserve_names(Model& model, const Step& step) {
  for (const Edit& edit : step.edits)
    std::visit(
        [&](const auto& change) {
          if (const Name* name = name_in(change))
            ModelAccess::reserve_name(model, change.id, *name);
        },
        edit);
}

}  // namespace

void Restorer::apply(Step step) {
  const History& history = model_.history();
  // Ids increase along the history: reversal plans and lookups rely on that order.
  if (!history.empty() && step.id <= history.back().id)
    throw Error(
        fmt::format("step {} stands after step {}", step.id.value, history.back().id.value));
  // Values and ids are checked before they are used as indices. The rest of the step can be checked
  // only with the values that it replaced, which applying the edits provides.
  check_values(model_, step);
  reserve_names(model_, step);
  Transaction transaction(model_);
  for (const Edit& edit : step.edits)
    std::visit([&](const auto& change) { transaction.write(change.id, change.after); }, edit);
  step.edits = transaction.keep();
  check_step(step);
  check_pieces(step);
  check_model(model_, step, step.edits);
  StepStore(model_).add(std::make_shared<Step>(std::move(step)));
}

void Restorer::record(Step step) {
  const History& history = model_.history();
  if (!history.empty() && step.id >= history.begin()->id)
    throw Error(
        fmt::format("step {} stands before step {}", step.id.value, history.begin()->id.value));
  check_values(model_, step);
  check_step(step);
  // The steps are undone in a copy, to check that each one led from one valid model to another. A
  // copy shares all values.
  if (!earlier_) earlier_ = std::make_unique<Model>(model_);
  Transaction back(*earlier_);
  for (const Edit& edit : step.edits)
    std::visit(
        [&]<class T>(const Change<T>& change) {
          const T* found = ModelAccess::table<T>(*earlier_).find(change.id);
          if (found ? !change.after || change.after->name != found->name : change.after != nullptr)
            throw Error(fmt::format("step {} did not leave '{}' as it was found", step.id.value,
                                    *name_in(change)));
          back.write(change.id, change.before);
        },
        edit);
  reserve_names(model_, step);
  reserve_names(*earlier_, step);
  check_model(*earlier_, step, back.keep());
  StepStore(model_).add(std::make_shared<Step>(std::move(step)));
}

void Restorer::set_source(std::shared_ptr<const Source> source) {
  ModelAccess::source(model_) = std::move(source);
}

std::uint32_t Restorer::next_step(const Model& model) {
  return ModelAccess::next_id(model.history());
}

void Restorer::set_next_step(std::uint32_t next) {
  const History& history = model_.history();
  if (next == 0 || next > limits::kStepId || (!history.empty() && next <= history.back().id.value))
    throw Error(fmt::format("{} cannot be the number of the next step", next));
  ModelAccess::next_id(ModelAccess::history(model_)) = next;
}

}  // namespace refx
