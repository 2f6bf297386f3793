// SPDX-License-Identifier: Apache-2.0

#include "util/did_you_mean.h"

#include <gtest/gtest.h>

namespace refx {
namespace {

const std::vector<std::string> kNames = {"merge-linears", "fuse-bias-in-linear", "linear", "relu"};

TEST(Nearest, FindsTheNameOneSlipAway) {
  EXPECT_EQ(nearest("merge-linear", kNames), "merge-linears");
  EXPECT_EQ(nearest("lienar", kNames), "linear");
  EXPECT_EQ(nearest("rely", kNames), "relu");
}

TEST(Nearest, PrefersTheNearestAndThenTheFirst) {
  EXPECT_EQ(nearest("conv1", {"conv", "conv1", "conv2"}), "conv1");
  EXPECT_EQ(nearest("conv3", {"conv1", "conv2"}), "conv1");
}

TEST(Nearest, StaysSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest("softmax", kNames), "");
  EXPECT_EQ(nearest("ab", {"xy"}), "");
  EXPECT_EQ(nearest("", kNames), "");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Nearest, IgnoresWordsThatNobodyTypes) {
  const std::string endless(100'000, 'a');
  EXPECT_EQ(nearest(endless, {endless}), "");
}

TEST(DidYouMean, IsTheEndOfAMessage) {
  EXPECT_EQ(did_you_mean("lienar", kNames), "; did you mean 'linear'?");
  EXPECT_EQ(did_you_mean("softmax", kNames), "");
}

}  // namespace
}  // namespace refx
