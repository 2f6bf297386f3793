// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "refx/model.h"

namespace refx {

using StepPtr = std::shared_ptr<const Step>;

// Adds and removes the steps of a model, and manages the names and slots of the objects that steps
// erased or made. A Transaction does not roll back what this class does.
class StepStore {
 public:
  explicit StepStore(Model& model) : model_(model) {}

  StepId next_id() const;                   // of the next new step
  StepPtr add(std::shared_ptr<Step> step);  // assigns an id if the step has none
  StepPtr remove(StepId id);
  void replace(StepPtr step);  // replaces the step of the same id

  // The steps that redo() can restore; it takes the last one first.
  std::vector<StepPtr>& reversed() const;
  // The objects that only reversed steps made, which neither a live step nor the edits of the next
  // step write. Each is given by the edit that made it; the pointers are valid as long as the
  // reversed steps are.
  using ReclaimableSlots = std::vector<const Edit*>;
  ReclaimableSlots reclaimable_slots(const std::vector<StepPtr>& reversed,
                                     const std::vector<Edit>& next) const;
  // Makes the names of the objects available to others, or keeps them for a redo.
  void release_names(const ReclaimableSlots& slots);
  void reserve_names(const ReclaimableSlots& slots);
  // Removes the slots, after which the objects cannot return.
  void purge(const ReclaimableSlots& slots);
  // Drops all steps, and the slots of all erased objects.
  void forget();

 private:
  Model& model_;
};

}  // namespace refx
