#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace refx {

// Tensors for weights that a rewrite makes. The first touch of new memory costs more than what is
// written there: those that are not small lie in large pages, where the system has some to give.

// Whether its values are few and lie in memory, one after the other: then they are copied before
// torch has seen what it has to do.
bool is_small(const at::Tensor& tensor);

// As at::empty_like.
at::Tensor empty_like_weight(const at::Tensor& weight);
// As at::cat, of dense tensors of one type.
at::Tensor joined(const std::vector<at::Tensor>& parts, std::int64_t dim);

}  // namespace refx
