// SPDX-License-Identifier: Apache-2.0

#include "refx/rings.h"

namespace refx {

void Rings::reserve(std::uint32_t id) {
  index_.reserve(index_.size() + 1);
  if (id >= places_.size()) places_.resize(id + 1);
}

void Rings::enter(std::size_t hash, std::uint32_t id, std::uint32_t any) {
  if (any == kNone) {
    places_[id] = {id, id, 1};
    index_.insert(hash, id);
    return;
  }
  Place& next = places_[any];
  places_[id] = {next.prev, any, 0};
  places_[next.prev].next = id;
  next.prev = id;
  ++next.count;
}

void Rings::leave_for(std::size_t hash, std::uint32_t id, std::uint32_t any) {
  const auto [prev, next, count] = places_[id];
  if (next == id) {
    index_.erase(hash, id);
    return;
  }
  places_[prev].next = next;
  places_[next].prev = prev;
  if (any != id) {
    --places_[any].count;
    return;
  }
  places_[next].count = count - 1;
  index_.replace(hash, id, next);
}

}  // namespace refx
