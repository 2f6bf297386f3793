// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "ops/param.h"
#include "rules/match.h"

namespace refx::rules {

// The weights that `once` computes with.
std::vector<Param> weights_of_once(const Definition& rule, const Match& match);

// Whether `once` only puts numbers into another order, so that none becomes another.
bool only_moves(const Definition& rule);

// What `once` computes, in fp64 and rounded once to the dtype of the weights; what it makes of
// another dtype itself stays so. Throws Error where it cannot be computed.
std::vector<at::Tensor> compute_once(const Definition& rule, const Model& model,
                                     const Match& match);
// The types of it, without computing.
std::vector<TypePtr> types_of_once(const Definition& rule, const Model& model, const Match& match);

// The pieces of a result that is a concatenation of weights; `whole` is where it is stored.
std::vector<Piece> pieces_of_once(const Definition& rule, const Model& model, const Match& match,
                                  std::size_t result, StateId whole);

}  // namespace refx::rules
