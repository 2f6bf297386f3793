// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_map>

#include "refx/model.h"
#include "refx/undo.h"

namespace refx {

// New values for the originals of a step, where tensors that the step made were changed since
// (trained, say). Throws Error where the change cannot be carried back exactly, unless it is to be
// discarded. Changes nothing.
std::unordered_map<StateId, at::TensorBase> carried_back(const Model& model, const Step& step,
                                                         const ReverseOptions& options);

}  // namespace refx
