// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "refx/model.h"

namespace refx {

// The steps of a history, in the model that they belong to.

using StepPtr = std::shared_ptr<const Step>;

// The steps of a model: adds and removes them, and looks after the names and places of what they
// erased or made. What it does is not taken back by a Transaction.
class StepStore {
 public:
  explicit StepStore(Model& model) : model_(model) {}

  StepId next_id() const;                   // that the next step gets
  StepPtr add(std::shared_ptr<Step> step);  // gives it an id if it has none
  StepPtr remove(StepId id);
  void replace(StepPtr step);  // the one of the same id

  // What redo() can bring back, the last one first in turn.
  std::vector<StepPtr>& reversed() const;
  // What reversed steps made and nobody else needs, neither a live step nor the next one, whose
  // edits these are. As the edits that made it, which live as long as the reversed steps.
  using Leftovers = std::vector<const Edit*>;
  Leftovers leftovers(const std::vector<StepPtr>& reversed, const std::vector<Edit>& next) const;
  // Their names: free for others, or kept for their return.
  void release_names(const Leftovers& leftovers);
  void reserve_names(const Leftovers& leftovers);
  // Gives up their places: they cannot return.
  void purge(const Leftovers& leftovers);
  // Drops every erased object's place and all steps.
  void forget();

 private:
  Model& model_;
};

}  // namespace refx
