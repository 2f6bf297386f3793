#include "ops/loops.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace refx::testing {
namespace {

// Of any length and any bits: subnormal, infinite and nan among them.
TEST(Loops, ScaleRoundsOnceAndSeesWhatIsNotFinite) {
  std::mt19937 random(7);
  int finite = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<float> in(random() % 70), out(in.size(), 7);
    const double factor =
        std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 120) - 70);
    for (float& x : in)
      x = random() % 40 ? std::bit_cast<float>(static_cast<std::uint32_t>(random() & 0xdfffffff))
                        : std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    bool expected = true;
    const bool seen = scale(in.data(), factor, out.data(), static_cast<std::int64_t>(in.size()));
    for (std::size_t at = 0; at < in.size(); ++at) {
      const volatile double product = static_cast<double>(in[at]) * factor;
      const auto rounded = static_cast<float>(product);
      if (std::isnan(rounded))
        ASSERT_TRUE(std::isnan(out[at]));
      else
        ASSERT_EQ(std::bit_cast<std::uint32_t>(out[at]), std::bit_cast<std::uint32_t>(rounded));
      expected = expected && std::isfinite(rounded);
    }
    ASSERT_EQ(seen, expected);
    finite += seen;
  }
  EXPECT_GT(finite, 400);
  EXPECT_LT(finite, 3600);
}

}  // namespace
}  // namespace refx::testing
