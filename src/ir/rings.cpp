// SPDX-License-Identifier: Apache-2.0

#include "refx/rings.h"

namespace refx {

void Rings::reserve(std::uint32_t id) {
  index_.reserve(index_.size() + 1);
  if (id >= links_.size()) links_.resize(id + 1);
}

void Rings::enter(std::size_t hash, std::uint32_t id, std::uint32_t any) {
  if (any == kNone) {
    links_[id] = {id, id, 1};
    index_.insert(hash, id);
    return;
  }
  Link& next = links_[any];
  links_[id] = {next.prev, any, 0};
  links_[next.prev].next = id;
  next.prev = id;
  ++next.count;
}

void Rings::leave_for(std::size_t hash, std::uint32_t id, std::uint32_t any) {
  const auto [prev, next, count] = links_[id];
  if (next == id) {
    index_.erase(hash, id);
    return;
  }
  links_[prev].next = next;
  links_[next].prev = prev;
  if (any != id) {
    --links_[any].count;
    return;
  }
  links_[next].count = count - 1;
  index_.replace(hash, id, next);
}

}  // namespace refx
