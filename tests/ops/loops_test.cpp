// SPDX-License-Identifier: Apache-2.0

#include "ops/loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace refx::testing {
namespace {

// Of any size, anywhere in memory, and of any bits: subnormal, infinite and nan among them.
TEST(Loops, ScaleRoundsOnceAndSeesWhatIsNotFinite) {
  constexpr float kUntouched = 7;
  std::mt19937 random(7);
  int finite = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::size_t rows = 1 + random() % 3, width = random() % 40, offset = random() % 9;
    std::vector<float> in(rows * width), memory(offset + in.size() + 9, kUntouched);
    float* const out = memory.data() + offset;
    std::vector<double> factors(rows);
    for (double& factor : factors)
      factor = std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 120) - 70);
    for (float& x : in)
      x = random() % 40 ? std::bit_cast<float>(static_cast<std::uint32_t>(random() & 0xdfffffff))
                        : std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    const bool seen = scale_rows(in.data(), factors.data(), out, static_cast<std::int64_t>(rows),
                                 static_cast<std::int64_t>(width));
    bool expected = true;
    for (std::size_t at = 0; at < in.size(); ++at) {
      const volatile double product = static_cast<double>(in[at]) * factors[at / width];
      const auto rounded = static_cast<float>(product);
      if (std::isnan(rounded))
        ASSERT_TRUE(std::isnan(out[at]));
      else
        ASSERT_EQ(std::bit_cast<std::uint32_t>(out[at]), std::bit_cast<std::uint32_t>(rounded));
      expected = expected && std::isfinite(rounded);
    }
    ASSERT_EQ(seen, expected);
    const auto is_untouched = [&](float x) { return x == kUntouched; };
    ASSERT_TRUE(std::all_of(memory.data(), out, is_untouched));
    ASSERT_TRUE(std::all_of(out + in.size(), memory.data() + memory.size(), is_untouched));
    finite += seen;
  }
  EXPECT_GT(finite, 400);
  EXPECT_LT(finite, 3600);
}

}  // namespace
}  // namespace refx::testing
