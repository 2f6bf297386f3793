// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "refx/export.h"
#include "refx/inputs.h"
#include "refx/progress.h"

namespace refx {

// On what a model is run to be judged, where, and for how long.
struct Measure {
  Inputs inputs = {};      // none: the file's sample inputs, or generated ones
  int steps = 0;           // calls after the first, on the state that it left: see with_steps()
  std::int64_t batch = 0;  // the size of the generated inputs' symbolic dimensions; 0: as they come
  // 0: as many as there are now. None: the same where time is measured; 1 where results are
  // compared, whose bits they change.
  std::optional<int> threads = {};
  std::string device = {};  // empty: where the model is
  double seconds = 3;       // for each comparison of times, at least
  std::uint64_t seed = 0;   // of generated inputs, and of what the model draws
  OnProgress progress = {};
};

}  // namespace refx
