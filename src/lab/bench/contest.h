// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <optional>

#include "lab/bench/clock.h"
#include "refx/bench.h"

namespace refx {

// Runs one model once, in its own memory.
struct Runner {
  Runner() = default;
  template <std::invocable F>
  Runner(F f) : run(std::move(f)) {}

  std::function<void()> run;
  std::function<void()> prepare = {};  // is called before each run, and not timed
};
// Creates a runner in fresh memory.
using MakeRunner = std::function<Runner()>;

// Runs the model on its own copies of the inputs and of the state that it writes. If a device is
// given, a run is captured there and replayed. In a sequence of calls the first call belongs to
// `prepare`; a run is all the calls after it.
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
