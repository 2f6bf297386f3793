// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

// Puts a model back together from what was saved of it: values at their places, then the steps that
// led there. For those who read models from somewhere; a change of a model goes through the Editor.
// Nothing is taken at its word: values and steps are checked before anybody uses them. Nothing is
// taken back either: a model whose restoring failed is to be dropped.
class REFX_API Restorer {
 public:
  explicit Restorer(Model& model) : model_(model) {}

  const Model& model() const { return model_; }

  // Makes room for that many objects.
  template <class T>
  void reserve(std::size_t size);
  // An empty place before `where` (no id: at the end), and the value that stands in one. What a
  // node refers to is put before it.
  template <class T>
  Id<T> add_slot(Id<T> where = {});
  template <class T>
  void put(Id<T> id, std::shared_ptr<const T> value);

  // Steps, each of which must lead from one valid model to another; else throws Error. Either all
  // of them are applied, oldest first, to what is there: their edits have no `before` yet …
  void apply(Step step);
  // … or all are recorded, newest first, of which the model has the edits already. What they erased
  // keeps its name for its return.
  void record(Step step);
  // The id that the next new step gets, which is greater than those of all steps.
  void set_next_step(std::uint32_t next);
  static std::uint32_t next_step(const Model& model);  // to be saved: ids are never used again
  // What the model was loaded from, where that keeps its originals elsewhere now.
  void set_source(std::shared_ptr<const Source> source);

 private:
  Model& model_;
  std::unique_ptr<Model> earlier_;  // as it was before the steps that were recorded
};

}  // namespace refx
