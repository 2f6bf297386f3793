// SPDX-License-Identifier: Apache-2.0

#include "lab/verify/noise.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kit.h"

namespace refx {
namespace {

using c10::IValue;
using namespace testing;

// A mask in floating point, a value that rounds, a view of it, and what is decided by it.
constexpr const char* kText = R"(graph():
    %x : [num_users=2] = placeholder[target=x]
    %mask : [num_users=1] = placeholder[target=mask]
    %off : [num_users=1] = call_function[target=aten.rsub.Scalar](args = (%mask, 1.0), kwargs = {})
    %y : [num_users=3] = call_function[target=aten.mul.Tensor](args = (%x, 0.1), kwargs = {})
    %view : [num_users=1] = call_function[target=aten.view.default](args = (%y, [8]), kwargs = {})
    %best : [num_users=1] = call_function[target=aten.argmax.default](args = (%y, -1), kwargs = {})
    %floor : [num_users=1] = call_function[target=aten.floor.default](args = (%x,), kwargs = {})
    %exp_ : [num_users=1] = call_function[target=aten.exp_.default](args = (%y,), kwargs = {})
    return (off, view, best, floor, exp_))";

struct Noisy {
  Executor executor{parse(kText)};
  std::vector<IValue> inputs;
  Trace trace;
  std::vector<at::Tensor> exact;

  explicit Noisy(const at::Tensor& x)
      : inputs{x.to(at::kDouble), at::tensor({1.0, 0.0, 1.0, 1.0}, at::kDouble)} {
    const std::vector<IValue> narrow = {x, inputs[1].toTensor().to(at::kFloat)};
    DtypeRecorder dtypes(trace);
    exec::run_watched(executor, narrow, dtypes);
    DecisionRecorder decisions(trace);
    exact = tensors_in(exec::run_watched(executor, inputs, decisions));
  }
  std::vector<at::Tensor> run(const RoundingNoise::Options& options,
                              std::set<std::string>* flipped = nullptr) {
    RoundingNoise noise(trace, options);
    std::vector<at::Tensor> out = tensors_in(exec::run_watched(executor, inputs, noise));
    if (flipped) *flipped = noise.flipped();
    return out;
  }
};

double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b) / b).abs().max().item<double>();
}

TEST(Noise, FallsOnWhatRoundsAndOnNothingElse) {
  Noisy noisy(at::randn({2, 4}));
  const auto out = noisy.run({.seed = 3});
  EXPECT_TRUE(at::equal(out[0], noisy.exact[0]));  // ones and zeros are exact
  // exp_ has written the memory that the view shares: still one and the same.
  EXPECT_TRUE(at::equal(out[1].view({2, 4}), out[4]));
  EXPECT_TRUE(at::equal(out[2], noisy.exact[2]));
  EXPECT_TRUE(at::equal(out[3], noisy.exact[3]));
  EXPECT_GT(relative(out[4], noisy.exact[4]), 1e-9);
  EXPECT_LT(relative(out[4], noisy.exact[4]), 2 * 0x1p-23);
  const auto fainter = noisy.run({.roundings = 1.0 / 16, .seed = 3});
  EXPECT_NEAR(relative(out[4], noisy.exact[4]) / relative(fainter[4], noisy.exact[4]), 16, 1);
}

TEST(Noise, HoldsDecisionsAndNamesThoseThatItWouldTurn) {
  at::Tensor x = at::zeros({2, 4});
  x[0][1] = 3;
  x[0][3] = std::nextafter(3.f, 4.f);
  x[1][2] = 1;
  Noisy noisy(x);
  int turned = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::set<std::string> held, free;
    const auto out = noisy.run({.roundings = 8, .seed = seed}, &held);
    EXPECT_TRUE(at::equal(out[2], noisy.exact[2]));
    const auto other = noisy.run(
        {.roundings = 8, .decisions = RoundingNoise::Decisions::free, .seed = seed}, &free);
    EXPECT_EQ(free, held);
    EXPECT_EQ(free.count("best") == 1, !at::equal(other[2], noisy.exact[2]));
    turned += static_cast<int>(free.size());
  }
  EXPECT_GT(turned, 2);
  EXPECT_LT(turned, 18);
}

TEST(Planted, ChangesWhatANodeGivesByThatPart) {
  Noisy noisy(at::randn({2, 4}));
  Planted planted({"off"}, 0.25, 1);
  const auto out = tensors_in(exec::run_watched(noisy.executor, noisy.inputs, planted));
  EXPECT_TRUE(at::equal((out[0] - noisy.exact[0]).abs(), noisy.exact[0] * 0.25));
  EXPECT_TRUE(at::equal(out[4], noisy.exact[4]));
}

}  // namespace
}  // namespace refx
