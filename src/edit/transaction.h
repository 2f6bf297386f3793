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

// Writes objects of a model and records their previous values until keep(). Without keep(), the
// destructor rolls everything back.
class Transaction {
 public:
  explicit Transaction(Model& model) : model_(model) {}
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  Model& model() const { return model_; }

  // Inserts a new object before `where`, or at the end if there is no id. Its name must be free, or
  // the name of an erased object, which then gets this value.
  template <class T>
  Id<T> insert(Id<T> where, T value);
  // Writes a value; null erases the object.
  template <class T>
  void write(Id<T> id, std::shared_ptr<const T> value);

  // Returns the value that this transaction wrote there, which may be changed in place. Returns
  // null if it wrote none, or if somebody else holds a reference to the value.
  template <class T>
  T* own(Id<T> id);
  // Reserves memory for this number of edits.
  void reserve(std::size_t edits);

  const std::vector<Edit>& edits() const { return edits_; }
  bool changed() const;
  // End the transaction and keep its changes. The journal, with one edit per object, is returned or
  // moved into `journal`, which must have capacity for it.
  std::vector<Edit> keep();
  void keep(std::vector<Edit>& journal);
  void rollback() noexcept;

 private:
  template <class T>
  Edit* logged(Id<T> id);
  void index(const Edit& edit, std::size_t at);
  void log(Edit edit, bool inserted);
  // Returns true if the edit made a new object, not one that was erased before.
  bool is_insertion(const Edit* edit) const { return inserted_[edit - edits_.data()]; }

  Model& model_;
  std::vector<Edit> edits_;
  std::vector<bool> inserted_;    // by edit: its object is new, not revived
  std::array<IdPages, 3> index_;  // by kind: id -> position in edits_, once there are many
};

// Returns true for the edit of an object that was made and erased again.
bool is_nothing(const Edit& edit);

// For tests: the n-th write from now throws. Negative: off.
extern thread_local long fail_after_writes;

}  // namespace refx
