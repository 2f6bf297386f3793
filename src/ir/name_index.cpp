// SPDX-License-Identifier: Apache-2.0

#include "refx/name_index.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace refx {

void NameIndex::reserve(std::size_t size) {
  if (size + size / 3 < places_.size()) return;
  const std::vector<Place> old = std::exchange(
      places_, std::vector<Place>(std::max<std::size_t>(16, std::bit_ceil(size + size / 2 + 1))));
  for (const Place& place : old)
    if (place.id != kNone) put(place);
}

void NameIndex::put(Place place) {
  std::size_t at = home(place.hash);
  while (places_[at].id != kNone) at = next(at);
  places_[at] = place;
}

void NameIndex::insert(std::size_t hash, std::uint32_t id) {
  reserve(size_ + 1);
  put({static_cast<std::uint32_t>(hash), id});
  ++size_;
}

NameIndex::Place& NameIndex::at(std::size_t hash, std::uint32_t id) {
  std::size_t at = home(static_cast<std::uint32_t>(hash));
  while (places_[at].id != id) at = next(at);
  return places_[at];
}

// What follows moves up, as far as it may: a search ends at the first free place.
void NameIndex::erase(std::size_t hash, std::uint32_t id) {
  const std::size_t mask = places_.size() - 1;
  std::size_t hole = &at(hash, id) - places_.data();
  for (std::size_t i = next(hole); places_[i].id != kNone; i = next(i)) {
    if (((i - home(places_[i].hash)) & mask) < ((i - hole) & mask)) continue;
    places_[hole] = places_[i];
    hole = i;
  }
  places_[hole].id = kNone;
  --size_;
}

}  // namespace refx
