#pragma once

#include <functional>
#include <vector>

#include "refx/transformation.h"

namespace refx {

// Applies the accepted sites, each as one step, until no accepted site is left; returns what is
// refused in the end.
std::vector<Refusal> apply_sites(Model& model, const Transformation& transformation,
                                 const std::function<bool(const Site&)>& accept,
                                 const std::function<void(const Site&, StepId)>& on_step);

}  // namespace refx
