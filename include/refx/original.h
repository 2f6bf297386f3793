// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

// Returns a copy of the model as it was before its first step, without anything that was trained
// into rewritten tensors since. Tensors that no step changed are shared with the model.
REFX_API Model original_of(const Model& model);

}  // namespace refx
