// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "refx/export.h"
#include "refx/inputs.h"
#include "refx/progress.h"

namespace refx {

inline constexpr int kMaxThreads = 1024;  // far more can end the process

// The inputs, the device and the duration of the runs in which a model is verified or measured.
struct Measure {
  Inputs inputs = {};      // empty: the file's sample inputs, or generated ones
  int steps = 0;           // number of calls after the first one, see with_steps()
  std::int64_t batch = 0;  // size of the symbolic dimensions of generated inputs; 0: default
  // From 0 to kMaxThreads. 0: keep the current number. None: the same if time is measured, and 1 if
  // results are compared, since the number of threads changes the order of sums and with it the
  // bits.
  std::optional<int> threads = {};
  std::string device = {};  // empty: the device of the model
  double seconds = 3;       // minimum for each comparison of times: finite, more than 0
  std::uint64_t seed = 0;   // for generated inputs and for random numbers of the model
  OnProgress progress = {};
};

}  // namespace refx
