// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "refx/export.h"
#include "refx/id.h"
#include "refx/name_index.h"

namespace refx {

// An ordered list of named values. An erased value keeps its id, its name and its slot, so that it
// can return to its exact position. Insertion, erasure and comparison of positions take amortized
// constant time. Only src/edit/, the implementation of the Editor, changes a table.
template <class T>
class REFX_API Table {
 public:
  using Ptr = std::shared_ptr<const T>;

  // Live ids, in order.
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Id<T>;
    using difference_type = std::ptrdiff_t;
    using pointer = const Id<T>*;
    using reference = Id<T>;

    Iterator() = default;
    Iterator(const Table* table, Id<T> at) : table_(table), at_(at) {}
    Id<T> operator*() const { return at_; }
    Iterator& operator++() {
      at_ = table_->next(at_);
      return *this;
    }
    Iterator operator++(int) {
      Iterator old = *this;
      ++*this;
      return old;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const Table* table_ = nullptr;
    Id<T> at_;
  };

  Iterator begin() const { return {this, first()}; }
  Iterator end() const { return {this, {}}; }
  std::size_t size() const { return live_; }
  bool empty() const { return live_ == 0; }

  // The live value. Throws Error if there is none.
  const T& operator[](Id<T> id) const;
  // Null if the id is unknown or its value is erased.
  const T* find(Id<T> id) const {
    return id.value < slots_.size() ? slots_[id.value].value.get() : nullptr;
  }
  const Ptr& pointer(Id<T> id) const { return slots_[id.value].value; }
  // The live value with this name, or no id.
  Id<T> find(const NameKey& name) const;
  bool contains(Id<T> id) const { return find(id) != nullptr; }

  Id<T> first() const;
  Id<T> last() const;
  Id<T> next(Id<T> id) const;      // the next live value; `id` may be erased
  Id<T> previous(Id<T> id) const;  // likewise
  bool precedes(Id<T> a, Id<T> b) const;
  std::vector<Id<T>> slots() const;  // in order, including erased values that may return

  // The value with this name, live or erased but able to return, or no id.
  Id<T> named(const NameKey& name) const;
  bool name_taken(const NameKey& name) const { return static_cast<bool>(named(name)); }
  // The erased value with this name that may return, or no id.
  Id<T> find_erased(const NameKey& name) const;
  // Returns `base`, or the first of base_1, base_2, … that is not taken.
  Name fresh_name(const Name& base) const;

  // One past the largest id ever assigned.
  std::uint32_t id_limit() const { return static_cast<std::uint32_t>(slots_.size()); }

 protected:
  friend struct ModelAccess;

  struct Slot {
    Ptr value;
    Id<T> prev, next;
    std::uint64_t label = 0;  // increases along the order
    Name name;                // empty if it never had one
  };
  void reserve(std::size_t size);
  // Inserts an empty slot before `where`, or at the end if there is no id.
  Id<T> insert_slot(Id<T> where);
  void remove_slot(Id<T> id);
  // Stores a value in a slot, or null to erase it. Returns the previous value.
  Ptr exchange(Id<T> id, Ptr value);
  // A slot never changes its name. While the name is released, another slot may take it.
  void reserve_name(const Name& name, Id<T> id);
  void release_name(const Name& name, Id<T> id);

 private:
  void make_room(Id<T> at);

  std::vector<Slot> slots_;
  Id<T> head_, tail_;
  std::size_t live_ = 0;
  NameIndex names_;  // of the slots whose names are not released
  // Maps a base name to n if base_1 … base_<n> are all taken: fresh_name() takes constant time.
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const NameKey& name) const { return name.hash(); }
  };
  mutable std::unordered_map<Name, std::uint64_t, Hash, std::equal_to<>> numbered_;
};

}  // namespace refx
