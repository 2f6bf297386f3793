// SPDX-License-Identifier: Apache-2.0

// Counts how often bench() answers "no difference" for a model and itself: 95 of 100 times or more.
//
//   bench_same [RUNS [SECONDS]]

#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <map>

#include "refx/bench.h"
#include "refx/builder.h"

namespace {

refx::Model perceptron() {
  refx::Builder b;
  refx::NodeId x = b.input("x");
  for (int i = 0; i < 6; ++i) {
    const refx::NodeId w = b.parameter(fmt::format("{}.weight", i), at::randn({256, 256}));
    x = b.call("aten.relu.default", {b.call("aten.linear.default", {x, w})});
  }
  return b.build(x);
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 100;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.3;
  const refx::Model model = perceptron();
  std::map<std::string, int> counts;
  std::string machine;
  for (int i = 0; i < runs; ++i) {
    const refx::Benchmark b =
        refx::bench(model, {.measure = {.inputs = {{at::randn({16, 256})}, "random"},
                                        .threads = 1,
                                        .seconds = seconds,
                                        .seed = static_cast<std::uint64_t>(i)}});
    ++counts[to_string(b.contest.speed)];
    machine = b.machine;
  }
  fmt::print("{}\n", machine);
  for (const auto& [speed, count] : counts) fmt::print("{:3} of {} {}\n", count, runs, speed);
}
