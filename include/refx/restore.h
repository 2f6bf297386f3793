// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

// Assembles a model from saved data: first the values in their slots, then the steps. Only readers
// of saved models use it; changes of a model go through the Editor. The data is not trusted: values
// and steps are checked before they are used. There is no rollback: if restoring fails, the model
// must be dropped.
class REFX_API Restorer {
 public:
  explicit Restorer(Model& model) : model_(model) {}

  const Model& model() const { return model_; }

  // Reserves memory for this number of objects.
  template <class T>
  void reserve(std::size_t size);
  // add_slot() inserts an empty slot before `where`, or at the end if there is no id. put() stores
  // a value in a slot. Values that a node refers to must be stored before it.
  template <class T>
  Id<T> add_slot(Id<T> where = {});
  template <class T>
  void put(Id<T> id, std::shared_ptr<const T> value);

  // Both throw Error unless the step leads from one valid model to another. apply() takes the steps
  // oldest first and applies their edits, whose `before` is not set yet, to the original. record()
  // takes them newest first, for a model that already has their edits; the names of objects that
  // they erased stay reserved.
  void apply(Step step);
  void record(Step step);
  // The id of the next new step, which is greater than the ids of all steps. It is saved, because
  // ids are never used again.
  void set_next_step(std::uint32_t next);
  static std::uint32_t next_step(const Model& model);
  // The numerics of a saved step whose file does not state them. Files of earlier versions marked
  // an approximate step with the parameter `approximate=True`.
  static Numerics unstated_numerics(const Kwargs& parameters);
  // Replaces the source of the model by one that stores its originals elsewhere.
  void set_source(std::shared_ptr<const Source> source);

 private:
  Model& model_;
  std::unique_ptr<Model> earlier_;  // the model before the recorded steps
};

}  // namespace refx
