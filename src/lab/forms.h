#pragma once

#include <map>
#include <set>

#include "refx/model.h"

namespace refx {

// For every live step, the steps that it is built on, directly or not.
std::map<StepId, std::set<StepId>> built_on(const Model& model);

// The original with these steps alone; what they are built on must be among them. What was trained
// into tensors of the others is not in it.
Model form_with(const Model& model, const std::set<StepId>& kept);

}  // namespace refx
