// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace refx {

// Tensors for weights that a rewrite makes. The first touch of new memory costs more than what is
// written there: those that are not small lie in large pages, where the system has some to give.

// As at::empty_like.
at::Tensor empty_like_weight(const at::Tensor& weight);
// As at::cat, of dense tensors of one type.
at::Tensor joined(const std::vector<at::Tensor>& parts, std::int64_t dim);

}  // namespace refx
