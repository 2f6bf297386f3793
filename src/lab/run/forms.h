// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>

#include "refx/model.h"

namespace refx {

// For every live step, the steps that it builds on, directly or indirectly.
std::map<StepId, std::set<StepId>> built_on(const Model& model);

// A copy without history in which regions (without gradients, under autocast) are inlined, so that
// the operators in them can be watched and converted. The model itself if there are no regions.
Model with_regions_inlined(const Model& model);

enum class Trained { discarded, carried_back };

// The original with only these steps, which must include the steps that they build on. Later
// changes of tensors of the other steps are discarded or carried back; throws Error if that is not
// possible.
Model form_with(const Model& model, const std::set<StepId>& kept,
                Trained trained = Trained::discarded);

}  // namespace refx
