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

// Returns true if `once` only rearranges elements, so that no value changes.
bool only_moves(const Definition& rule);

// Computes the tensors of `once` in fp64 and rounds them once, to the dtype of the weights. A
// tensor that the rule itself casts to another dtype keeps that dtype. Throws Error if it cannot
// run.
std::vector<at::Tensor> compute_once(const Definition& rule, const Model& model,
                                     const Match& match);
// The types of these tensors, without computing them.
std::vector<TypePtr> types_of_once(const Definition& rule, const Model& model, const Match& match);

// The pieces of a result that is a concatenation of weights; `whole` is where it is stored.
std::vector<Piece> pieces_of_once(const Definition& rule, const Model& model, const Match& match,
                                  std::size_t result, StateId whole);

}  // namespace refx::rules
