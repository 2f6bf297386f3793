// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "refx/bisect.h"

namespace refx {

// Delta debugging: minimal sets of steps that make a check fail.

using Steps = std::vector<StepId>;
using TestSteps = std::function<BisectVerdict(const Steps& kept)>;

// Returns a minimal subset of `failing` that still fails the test: no single step can be removed
// from it, unless a test was skipped. Keeps the order of `failing`.
Steps minimize(const Steps& failing, const TestSteps& test);

}  // namespace refx
