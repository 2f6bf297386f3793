// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>

#include "refx/model.h"

namespace refx {

// For every live step, the steps that it is built on, directly or not.
std::map<StepId, std::set<StepId>> built_on(const Model& model);

// A copy without history in which regions (without gradients, under autocast) are part of the
// graph, so that what runs in them can be watched and converted. The model itself if it has none.
Model with_regions_inlined(const Model& model);

enum class Trained { discarded, carried_back };

// The original with these steps alone; what they are built on must be among them. What was trained
// into tensors of the others is not in it, or carried back; an Error if that cannot be.
Model form_with(const Model& model, const std::set<StepId>& kept,
                Trained trained = Trained::discarded);

}  // namespace refx
