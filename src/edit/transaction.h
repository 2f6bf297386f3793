#pragma once

#include <c10/util/flat_hash_map.h>

#include <memory>
#include <vector>

#include "refx/model.h"

namespace refx {

// The engine under Editor and reverse(): writes objects of a model and remembers what they were,
// until keep(). Destroyed without it, it takes everything back.
class Transaction {
 public:
  explicit Transaction(Model& model) : model_(model) {}
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  const Model& model() const { return model_; }
  Model& mutable_model() { return model_; }
  template <class T>
  const auto& table() const {
    return const_cast<Transaction*>(this)->mutable_table<T>();
  }

  // Makes room for that many objects.
  template <class T>
  void reserve(std::size_t size);
  // A new object before `where` (no id: at the end). Its name must be free.
  template <class T>
  Id<T> insert(Id<T> where, T value);
  // Null erases.
  template <class T>
  void write(Id<T> id, std::shared_ptr<const T> value);

  const std::vector<Edit>& edits() const { return edits_; }
  bool changed() const;
  // Ends the transaction: what was written stays. Returns the journal, one edit per object.
  std::vector<Edit> keep();
  void rollback() noexcept;

  // History. None of these is taken back by rollback().
  std::shared_ptr<const Step> add_step(std::shared_ptr<Step> step);  // gives it an id if it has none
  std::shared_ptr<const Step> remove_step(StepId id);
  std::vector<std::shared_ptr<const Step>>& reversed() { return model_.history_.reversed_; }
  // The names of the objects a reversed step made: free for others, or kept for its return.
  void release_names(const Step& step);
  void reserve_names(const Step& step);
  // Makes the questions about steps that build on one another quick to answer.
  void index_history() { model_.history_.index(); }
  // Gives up the places of what a reversed step made: it cannot return.
  void purge(const Step& step);
  // Drops every erased object's place and all steps.
  void forget();

  // A history that was saved: an empty place before `where`, then each step, which finds what its
  // edits replace in the model. Ids that later steps get start at `next`.
  template <class T>
  Id<T> insert_place(Id<T> where);
  void restore_step(std::shared_ptr<Step> step);
  // Or, where the edits of the steps stand in the model already: the value of an empty place, and
  // the name that an erased one keeps; then add_step().
  template <class T>
  void restore(Id<T> id, std::shared_ptr<const T> value);
  template <class T>
  void restore_name(Id<T> id, const std::string& name);
  void set_next_step(std::uint32_t next) { model_.history_.next_id_ = next; }

  void set_mutations(std::vector<Mutation> mutations) { model_.mutations_ = std::move(mutations); }
  void set_source(std::shared_ptr<const Source> source) { model_.source_ = std::move(source); }

 private:
  template <class T>
  auto& mutable_table();
  template <class F>
  void for_each_left(const Step& step, F&& f);
  Edit* logged(std::uint64_t object);
  void log(Edit edit, bool inserted);
  // Whether the edit made its object, which was not there before, not even erased.
  bool is_insertion(const Edit* edit) const { return inserted_[edit - edits_.data()]; }
  void touch() { ++model_.revision_; }

  Model& model_;
  std::vector<Edit> edits_;
  std::vector<bool> inserted_;                              // by edit: its object is new, not revived
  ska::flat_hash_map<std::uint64_t, std::size_t> index_;  // object -> edit, once there are many
};

// One number for any object: its kind and its id.
std::uint64_t object_key(const Edit& edit);
template <class T>
std::uint64_t object_key(Id<T> id);

// For tests: the n-th write from now throws. Negative: off.
extern thread_local long fail_after_writes;

}  // namespace refx
