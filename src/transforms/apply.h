// SPDX-License-Identifier: Apache-2.0
#pragma once

// transforms/: one file per transformation, and what applies and reverses them.

#include <vector>

#include "refx/transformation.h"

namespace refx {

// Applies the accepted sites, each as one step, until no accepted site is left; returns what is
// refused in the end.
std::vector<Refusal> apply_sites(Model& model, const Transformation& transformation,
                                 const AcceptSite& accept, const OnStep& on_step);

// The registered transformation that made the step, with the same parameters; null if there is
// none.
const Transformation* maker_of(const Step& step);

}  // namespace refx
