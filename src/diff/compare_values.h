// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "refx/diff.h"

namespace refx {

// How the values of two tensors of the same dtype and sizes differ; nothing if they are the same
// bit for bit. Tensors that are the same memory are not read.
std::optional<Difference::Values> compare_values(const at::TensorBase& a, const at::TensorBase& b);

}  // namespace refx
