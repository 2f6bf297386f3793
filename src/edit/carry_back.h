// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_map>

#include "refx/model.h"
#include "refx/undo.h"

namespace refx {

// Returns new values for the originals of a step if tensors that the step made have been changed
// since then, for example by training. Throws Error if a change cannot be carried back exactly,
// unless the options discard it. Does not change the model.
std::unordered_map<StateId, at::TensorBase> carried_back(const Model& model, const Step& step,
                                                         const ReverseOptions& options);

}  // namespace refx
