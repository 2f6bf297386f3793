// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBase.h>

#include "refx/edit.h"

namespace refx {

// Whether there is such a piece of the tensor.
bool is_inside(const Piece& piece, const at::TensorBase& whole);
// And whether it has as many elements as the tensor that it is said to be.
bool fits(const Piece& piece, const at::TensorBase& whole, const at::TensorBase& part);

}  // namespace refx
