// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "refx/bisect.h"

namespace refx {

// Delta debugging: the smallest set of steps that makes a check fail.

using Steps = std::vector<StepId>;
using TestSteps = std::function<Verdict(const Steps& kept)>;

// A part of `failing`, which fails the test, that fails it too and none of whose steps can be left
// out. Tests that skip say nothing. In the order of `failing`.
Steps minimize(const Steps& failing, const TestSteps& test);

}  // namespace refx
