// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "refx/model.h"

namespace refx {

// A copy, without history, whose tensors and nodes went through these functions. Tied tensors stay
// one tensor.
Model converted(const Model& model, const std::function<at::Tensor(const at::Tensor&)>& tensor,
                const std::function<void(Node&)>& node);

}  // namespace refx
