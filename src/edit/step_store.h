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
  // The names of the objects a reversed step made: free for others, or kept for its return.
  void release_names(const Step& step);
  void reserve_names(const Step& step);
  // Gives up the places of what a reversed step made: it cannot return.
  void purge(const Step& step);
  // Drops every erased object's place and all steps.
  void forget();

  // Makes the questions about steps that build on one another quick to answer.
  void index();

 private:
  template <class F>
  void for_each_leftover(const Step& step, F&& f);

  Model& model_;
};

}  // namespace refx
