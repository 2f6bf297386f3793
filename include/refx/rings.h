// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "refx/export.h"
#include "refx/name_index.h"

namespace refx {

// Ids in groups of what they have in common. The ids of a group are a ring, and one of them is in
// an index, by the hash of that: whoever knows it says which ids have it.
class REFX_API Rings {
 public:
  static constexpr std::uint32_t kNone = NameIndex::kNone;

  // One of the group for whose ids has(id) is true; kNone if there is none.
  template <class F>
  std::uint32_t any(std::size_t hash, F&& has) const {
    return index_.find(hash, has);
  }
  bool empty() const { return index_.size() == 0; }
  // Of the group that any() told.
  std::size_t count(std::uint32_t any) const { return any == kNone ? 0 : places_[any].count; }
  template <class F>
  void for_each(std::uint32_t any, F&& f) const {
    if (any == kNone) return;
    std::uint32_t id = any;
    do f(id);
    while ((id = places_[id].next) != any);
  }
  // Whether it is the only one of its group.
  bool is_alone(std::uint32_t id) const { return id < places_.size() && places_[id].next == id; }

  void reserve(std::uint32_t id);  // enter() then needs no memory
  // `any` is what any() says before; who leaves is asked for it only where there are others.
  void enter(std::size_t hash, std::uint32_t id, std::uint32_t any);
  template <class F>
  void leave(std::size_t hash, std::uint32_t id, F&& any) {
    leave_for(hash, id, is_alone(id) ? id : any());
  }

 private:
  void leave_for(std::size_t hash, std::uint32_t id, std::uint32_t any);

  struct Place {
    std::uint32_t prev = kNone, next = kNone;
    std::uint32_t count = 0;  // of the group, in the one that is in the index
  };
  NameIndex index_;
  std::vector<Place> places_;
};

}  // namespace refx
