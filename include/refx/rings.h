// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "refx/export.h"
#include "refx/name_index.h"

namespace refx {

// Groups ids by a key that the caller compares, such as the state entry that a node reads. The ids
// of a group form a doubly linked ring. An index finds one member by the hash of the key.
class REFX_API Rings {
 public:
  static constexpr std::uint32_t kNone = NameIndex::kNone;

  // Any member of the group whose key has this hash and for which has(id) is true, or kNone.
  template <class F>
  std::uint32_t any(std::size_t hash, F&& has) const {
    return index_.find(hash, has);
  }
  bool empty() const { return index_.size() == 0; }
  // The size of the group that a result of any() belongs to.
  std::size_t count(std::uint32_t any) const { return any == kNone ? 0 : links_[any].count; }
  template <class F>
  void for_each(std::uint32_t any, F&& f) const {
    if (any == kNone) return;
    std::uint32_t id = any;
    do f(id);
    while ((id = links_[id].next) != any);
  }
  // Returns true if the id is the only member of its group.
  bool is_alone(std::uint32_t id) const { return id < links_.size() && links_[id].next == id; }

  void reserve(std::uint32_t id);  // after this, enter() does not allocate
  // `any` is a result of any() from before the call. leave() takes a function that returns one,
  // and calls it only if the group has other members.
  void enter(std::size_t hash, std::uint32_t id, std::uint32_t any);
  template <class F>
  void leave(std::size_t hash, std::uint32_t id, F&& any) {
    leave_for(hash, id, is_alone(id) ? id : any());
  }

 private:
  void leave_for(std::size_t hash, std::uint32_t id, std::uint32_t any);

  struct Link {
    std::uint32_t prev = kNone, next = kNone;
    std::uint32_t count = 0;  // size of the group; valid in the member that is in the index
  };
  NameIndex index_;
  std::vector<Link> links_;
};

}  // namespace refx
