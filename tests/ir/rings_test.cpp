// SPDX-License-Identifier: Apache-2.0

#include "refx/rings.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace refx::testing {
namespace {

TEST(Rings, GroupTheIdsThatHaveOneThingInCommonAlsoWhereHashesCollide) {
  std::mt19937 random(5);
  Rings rings;
  std::map<std::uint32_t, std::uint32_t> has;  // id -> what
  auto hash = [](std::uint32_t what) { return std::size_t{what / 3}; };
  auto any = [&](std::uint32_t what) {
    return rings.any(hash(what), [&](std::uint32_t id) { return has.at(id) == what; });
  };
  EXPECT_TRUE(rings.empty());
  for (int i = 0; i < 20000; ++i) {
    const std::uint32_t id = random() % 64;
    if (const auto it = has.find(id); it == has.end()) {
      const std::uint32_t what = random() % 16;
      rings.reserve(id);
      rings.enter(hash(what), id, any(what));
      has[id] = what;
    } else {
      rings.leave(hash(it->second), id, [&] { return any(it->second); });
      has.erase(it);
    }
    ASSERT_EQ(rings.empty(), has.empty());
    for (std::uint32_t what = 0; what < 16; ++what) {
      std::set<std::uint32_t> expected, found;
      for (const auto& [other, its] : has)
        if (its == what) expected.insert(other);
      rings.for_each(any(what), [&](std::uint32_t other) { found.insert(other); });
      ASSERT_EQ(found, expected);
      ASSERT_EQ(rings.count(any(what)), expected.size());
      for (const std::uint32_t other : expected)
        ASSERT_EQ(rings.is_alone(other), expected.size() == 1);
    }
  }
  EXPECT_FALSE(rings.is_alone(1000));
}

}  // namespace
}  // namespace refx::testing
