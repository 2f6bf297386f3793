// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

// The model as it was before its first step; what was trained into rewritten tensors since is not
// in it. A copy: the model stays as it is, and tensors that no step touched are shared.
REFX_API Model original_of(const Model& model);

// Whether the model is the one of the file that was first transformed, bit for bit: save() writes
// that file's bytes then.
REFX_API bool is_original(const Model& model);

// Whether these bytes were also compared: the history has a fingerprint of that file, and what
// save() writes has the same. Histories of earlier versions have none.
REFX_API bool is_proven_original(const Model& model);

}  // namespace refx
