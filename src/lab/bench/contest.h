// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <optional>

#include "lab/bench/clock.h"
#include "refx/bench.h"

namespace refx {

// Runs one model once, on memory of its own.
struct Runner {
  Runner() = default;
  template <std::invocable F>
  Runner(F f) : run(std::move(f)) {}

  std::function<void()> run;
  std::function<void()> prepare = {};  // has to be called before each run, and is not timed
};
// Makes a runner in fresh memory.
using MakeRunner = std::function<Runner()>;

// Runs with these inputs, in copies of its own of them and of the state that a run writes; captured
// on a device and replayed there if one is given. The first call of a sequence prepares each run,
// which is those after it.
MakeRunner runs_of(const Model& model, Inputs inputs, std::optional<c10::Device> capture_on = {});

struct ContestOptions {
  int rounds = 10;
  double seconds = 3;
  std::uint64_t seed = 0;
  std::function<void(double part)> progress = {};  // from 0 to 1
};

// The measurement of bench(): see there.
Contest contest(const MakeRunner& before, const MakeRunner& after, Clock& clock,
                const ContestOptions& options);

}  // namespace refx
