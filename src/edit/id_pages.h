// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace refx {

// A sparse array of numbers, indexed by id. Ids that one step writes are close to each other, so a
// few pages are enough; ranges without entries take no memory.
class IdPages {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  std::uint32_t get(std::uint32_t id) const {
    const std::size_t page = id / kSize;
    return page < pages_.size() && pages_[page] ? (*pages_[page])[id % kSize] : kNone;
  }
  void set(std::uint32_t id, std::uint32_t number) {
    const std::size_t page = id / kSize;
    if (page >= pages_.size()) pages_.resize(page + page / 2 + 1);
    if (!pages_[page]) {
      pages_[page] = std::make_unique<Page>();
      pages_[page]->fill(kNone);
    }
    (*pages_[page])[id % kSize] = number;
  }

 private:
  static constexpr std::size_t kSize = 256;
  using Page = std::array<std::uint32_t, kSize>;
  std::vector<std::unique_ptr<Page>> pages_;
};

}  // namespace refx
