// SPDX-License-Identifier: Apache-2.0

// Runs of one executor, and of one model, from several threads.

#include <atomic>
#include <thread>

#include "exec/same.h"

namespace refx::testing {
namespace {

constexpr int kThreads = 4, kRuns = 50;

void at_once(const std::function<void(int)>& f) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&f, i] { f(i); });
  for (std::thread& thread : threads) thread.join();
}

Model layers() {
  return one_input([](Builder& b, NodeId x) -> Arg {
    NodeId w = b.parameter("w", at::full({8, 8}, 0.25));
    for (int i = 0; i < 3; ++i)
      x = b.call("aten.relu.default", {b.call("aten.linear.default", {x, w})});
    return x;
  });
}

// Every thread has inputs of its own, some of them of another size, so that plans are made and
// used.
void expect_right_in_all_threads(const std::function<c10::IValue(std::vector<c10::IValue>)>& run) {
  std::atomic<int> wrong = 0;
  at_once([&](int i) {
    for (int k = 0; k < kRuns; ++k) {
      const at::Tensor x = at::full({2 + k / 10 % 2, 8}, i + 1.0);
      const at::Tensor expected = at::full({2 + k / 10 % 2, 8}, 8.0 * (i + 1));
      wrong += !at::equal(run({x}).toTensor(), expected);
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, RunOneExecutor) {
  Executor executor(layers());
  expect_right_in_all_threads([&](const auto& inputs) { return executor.run(inputs); });
}

TEST(Threads, RunOneModel) {
  Model model = layers();
  expect_right_in_all_threads([&](const auto& inputs) { return model.forward(inputs); });
}

// The state is one: none of the calls is lost.
TEST(Threads, TakeTurnsWithState) {
  Builder b;
  NodeId x = b.input("x");
  NodeId calls = b.buffer("calls", at::zeros({1}));
  b.call("aten.add_.Tensor", {calls, 1});
  Model model = b.build(b.call("aten.add.Tensor", {calls, x}));
  at_once([&](int) {
    for (int k = 0; k < kRuns; ++k) model.forward({at::zeros({1})});
  });
  EXPECT_EQ(model.forward({at::zeros({1})}).toTensor().item<float>(), kThreads * kRuns + 1);
}

TEST(Threads, ReadAModel) {
  const Model model = layers();
  std::atomic<int> wrong = 0;
  at_once([&](int) {
    const Model copy = model;
    Executor executor(copy);
    wrong += executor.run({at::ones({1, 8})}).toTensor().sum().item<float>() != 64;
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace refx::testing
