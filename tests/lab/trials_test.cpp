// SPDX-License-Identifier: Apache-2.0

#include "lab/tune/trials.h"

#include <gtest/gtest.h>

namespace refx::testing {
namespace {

TEST(Trials, WithFormerNamesOfRulesAreReused) {
  Trials trials("here", "");
  trials.read_line(
      R"({"class": "c", "moves": ["linear-written-out", "merge-linears"], "before": 2.0, "after": 1.0, )"
      R"("ratio": 2.0, "low": 1.9, "high": 2.1, "speed": "faster", "saved": 0, "where": "here"})");
  const Trial* trial = trials.find("c", {"fuse-linear", "merge-linears"});
  ASSERT_TRUE(trial);
  EXPECT_EQ(trial->ratio, 2);
  EXPECT_EQ(trial->speed, Speed::faster);
}

}  // namespace
}  // namespace refx::testing
