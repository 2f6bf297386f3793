// SPDX-License-Identifier: Apache-2.0

#include "refx/name_index.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace refx {

void NameIndex::reserve(std::size_t size) {
  if (size + size / 3 < buckets_.size()) return;
  const std::vector<Bucket> old = std::exchange(
      buckets_, std::vector<Bucket>(std::max<std::size_t>(16, std::bit_ceil(size + size / 2 + 1))));
  for (const Bucket& bucket : old)
    if (bucket.id != kNone) put(bucket);
}

void NameIndex::put(Bucket bucket) {
  std::size_t at = home(bucket.hash);
  while (buckets_[at].id != kNone) at = next(at);
  buckets_[at] = bucket;
}

void NameIndex::insert(std::size_t hash, std::uint32_t id) {
  reserve(size_ + 1);
  put({static_cast<std::uint32_t>(hash), id});
  ++size_;
}

NameIndex::Bucket& NameIndex::at(std::size_t hash, std::uint32_t id) {
  std::size_t at = home(static_cast<std::uint32_t>(hash));
  while (buckets_[at].id != id) at = next(at);
  return buckets_[at];
}

// What follows moves up, as far as it may: a search ends at the first free bucket.
void NameIndex::erase(std::size_t hash, std::uint32_t id) {
  const std::size_t mask = buckets_.size() - 1;
  std::size_t hole = &at(hash, id) - buckets_.data();
  for (std::size_t i = next(hole); buckets_[i].id != kNone; i = next(i)) {
    if (((i - home(buckets_[i].hash)) & mask) < ((i - hole) & mask)) continue;
    buckets_[hole] = buckets_[i];
    hole = i;
  }
  buckets_[hole].id = kNone;
  --size_;
}

}  // namespace refx
