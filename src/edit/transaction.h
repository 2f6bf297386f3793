// SPDX-License-Identifier: Apache-2.0
#pragma once

// edit/: every change of a model. The Editor journals it; undo takes it back; Restorer puts saved
// models together. Nothing outside includes these private headers.

#include <array>
#include <memory>
#include <vector>

#include "edit/id_pages.h"
#include "refx/model.h"

namespace refx {

// Writes objects of a model and remembers what they were, until keep(). Destroyed without it, it
// takes everything back.
class Transaction {
 public:
  explicit Transaction(Model& model) : model_(model) {}
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  Model& model() const { return model_; }

  // A new object before `where` (no id: at the end). Its name must be free, or that of an erased
  // object, which then returns with a new value.
  template <class T>
  Id<T> insert(Id<T> where, T value);
  // Null erases.
  template <class T>
  void write(Id<T> id, std::shared_ptr<const T> value);

  // What this transaction wrote there, to be changed further; null if it wrote nothing, or if
  // somebody else has it too.
  template <class T>
  T* own(Id<T> id);
  // Makes room for as many edits.
  void reserve(std::size_t edits);

  const std::vector<Edit>& edits() const { return edits_; }
  bool changed() const;
  // Ends the transaction: what was written stays. The journal is returned, one edit per object, or
  // goes where there is room for it.
  std::vector<Edit> keep();
  void keep(std::vector<Edit>& journal);
  void rollback() noexcept;

 private:
  template <class T>
  Edit* logged(Id<T> id);
  void index(const Edit& edit, std::size_t at);
  void log(Edit edit, bool inserted);
  // Whether the edit made its object, which was not there before, not even erased.
  bool is_insertion(const Edit* edit) const { return inserted_[edit - edits_.data()]; }

  Model& model_;
  std::vector<Edit> edits_;
  std::vector<bool> inserted_;    // by edit: its object is new, not revived
  std::array<IdPages, 3> index_;  // by kind: id -> edit, once there are many
};

// An edit of an object that was made and erased again.
bool is_nothing(const Edit& edit);

// For tests: the n-th write from now throws. Negative: off.
extern thread_local long fail_after_writes;

}  // namespace refx
