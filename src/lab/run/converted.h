// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "refx/model.h"

namespace refx {

// A copy, without history, with the functions applied to its tensors and nodes. Tied tensors stay
// tied: each tensor is converted once.
Model converted(const Model& model, const std::function<at::Tensor(const at::Tensor&)>& tensor,
                const std::function<void(Node&)>& node);

}  // namespace refx
