// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "refx/export.h"
#include "refx/name.h"

namespace refx {

// A hash of a number, such that neighbours do not come to lie side by side; and of an address.
inline std::size_t spread(std::uint64_t number) { return (number * 0x9e3779b97f4a7c15) >> 32; }
inline std::size_t spread(const void* address) {
  return spread(std::uint64_t{reinterpret_cast<std::uintptr_t>(address)});
}

// Ids by the hashes of names: whoever keeps the names says which of the ids under one hash is
// meant. It never shrinks, so that what was taken out returns without memory.
class REFX_API NameIndex {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  // The id under the hash for which is(id) is true; kNone if there is none.
  template <class F>
  std::uint32_t find(std::size_t hash, F&& is) const {
    if (buckets_.empty()) return kNone;
    const auto sought = static_cast<std::uint32_t>(hash);
    for (std::size_t at = home(sought);; at = next(at)) {
      const Bucket& bucket = buckets_[at];
      if (bucket.id == kNone || (bucket.hash == sought && is(bucket.id))) return bucket.id;
    }
  }
  std::size_t size() const { return size_; }

  void reserve(std::size_t size);  // insert() needs no memory up to as many
  void insert(std::size_t hash, std::uint32_t id);
  void replace(std::size_t hash, std::uint32_t id, std::uint32_t by) { at(hash, id).id = by; }
  void erase(std::size_t hash, std::uint32_t id);

 private:
  struct Bucket {
    std::uint32_t hash = 0, id = kNone;
  };

  std::size_t home(std::uint32_t hash) const { return hash & (buckets_.size() - 1); }
  std::size_t next(std::size_t at) const { return (at + 1) & (buckets_.size() - 1); }
  Bucket& at(std::size_t hash, std::uint32_t id);
  void put(Bucket bucket);

  std::vector<Bucket> buckets_;  // a power of two, some of them free
  std::size_t size_ = 0;
};

}  // namespace refx
