// SPDX-License-Identifier: Apache-2.0

#include "refx/name_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace refx::testing {
namespace {

TEST(NameIndex, FindsWhatWasPutInAlsoWhereHashesCollide) {
  std::mt19937 random(5);
  NameIndex index;
  std::map<std::uint32_t, std::size_t> expected;  // id -> hash
  auto is = [](std::uint32_t id) { return [id](std::uint32_t other) { return other == id; }; };
  for (int i = 0; i < 20000; ++i) {
    const std::uint32_t id = random() % 512;
    if (auto it = expected.find(id); it == expected.end()) {
      const std::size_t hash =
          (random() % 8 << 20) + random() % 64;  // few places, at the edges too
      index.insert(hash - 3, id);
      expected.emplace(id, hash - 3);
    } else if (random() % 4 == 0 && !expected.count(id + 512)) {
      index.replace(it->second, id, id + 512);
      expected.emplace(id + 512, it->second);
      expected.erase(it);
    } else {
      index.erase(it->second, id);
      expected.erase(it);
    }
    if (auto it = expected.find(id + 512); it != expected.end() && random() % 2) {
      index.erase(it->second, it->first);
      expected.erase(it);
    }
    ASSERT_EQ(index.size(), expected.size());
    if (i % 100 != 0) continue;
    for (const auto& [known, hash] : expected) ASSERT_EQ(index.find(hash, is(known)), known);
    for (std::uint32_t other = 0; other < 1024; ++other) {
      if (expected.count(other)) continue;
      ASSERT_EQ(index.find(random() % 64 - 3, is(other)), NameIndex::kNone);
    }
  }
}

}  // namespace
}  // namespace refx::testing
