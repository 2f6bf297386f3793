// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "refx/model.h"

namespace refx {

// Access to the private members of a model, for edit/ only: Transaction writes objects, StepStore
// manages the history, and Restorer assembles saved models.
struct ModelAccess {
  template <class T>
  static auto& table(Model& model) {
    if constexpr (std::is_same_v<T, Node>)
      return model.graph_;
    else if constexpr (std::is_same_v<T, StateEntry>)
      return model.state_;
    else
      return model.modules_;
  }
  static History& history(Model& model) { return model.history_; }
  static std::vector<Mutation>& mutations(Model& model) { return model.mutations_; }
  static std::vector<std::string>& kept_modules(Model& model) { return model.kept_modules_; }
  static std::shared_ptr<const Source>& source(Model& model) { return model.source_; }
  // Marks as outdated everything that was computed from the model, such as an Executor. The counter
  // is shared by all models: equal revisions mean that one model is an unchanged copy of the other.
  static void touch(Model& model) {
    static std::atomic<std::uint64_t> last = 0;
    model.revision_ = 1 + last.fetch_add(1, std::memory_order_relaxed);
  }

  template <class T>
  static void reserve(Model& model, std::size_t size) {
    table<T>(model).reserve(size);
  }
  template <class T>
  static Id<T> insert_slot(Model& model, Id<T> where) {
    return table<T>(model).insert_slot(where);
  }
  template <class T>
  static void remove_slot(Model& model, Id<T> id) {
    table<T>(model).remove_slot(id);
  }
  template <class T>
  static std::shared_ptr<const T> exchange(Model& model, Id<T> id, std::shared_ptr<const T> value) {
    return table<T>(model).exchange(id, std::move(value));
  }
  template <class T>
  static void reserve_name(Model& model, Id<T> id, const Name& name) {
    table<T>(model).reserve_name(name, id);
  }
  template <class T>
  static void release_name(Model& model, Id<T> id, const Name& name) {
    table<T>(model).release_name(name, id);
  }

  static void add(History& history, std::shared_ptr<const Step> step) {
    history.add(std::move(step));
  }
  static void replace(History& history, std::shared_ptr<const Step> step) {
    history.replace(std::move(step));
  }
  static std::shared_ptr<const Step> remove(History& history, StepId id) {
    return history.remove(id);
  }
  static std::uint32_t& next_id(History& history) { return history.next_id_; }
  static std::uint32_t next_id(const History& history) { return history.next_id_; }
  static std::vector<std::shared_ptr<const Step>>& reversed(History& history) {
    return history.reversed_;
  }
};

}  // namespace refx
