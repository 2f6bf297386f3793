// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "refx/model.h"

namespace refx {

// What can be told of a value without running the graph, from its type or, where the graph carries
// none, from what computes it.

// Whether it may be an integer, a size or a truth value rather than a floating-point tensor.
bool may_be_integer(const Model& model, NodeId node);

// Its number of dimensions, if that is certain.
std::optional<std::size_t> known_rank(const Model& model, NodeId node);

// Its dtype, if that is certain.
std::optional<c10::ScalarType> known_dtype(const Model& model, NodeId node);

}  // namespace refx
