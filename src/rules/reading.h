// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/SmallVector.h>

#include <string_view>
#include <vector>

#include "refx/model.h"

namespace refx::rules {

// A call by aten's name for it, with all its arguments: what a node means, however it is spelled.
struct Reading {
  struct Given {
    std::string_view name;  // aten's, of the argument
    Arg value;
    StateId state = {};  // of a layer's own tensor, which has no node
    bool by_default = false;
  };
  std::string_view name;
  c10::SmallVector<Given, 6> args;
  bool in_place = false;
  bool inverse = false;  // a division by c as a multiplication by 1/c

  const Given* find(std::string_view name) const;
};

// As it is spelled; no name for a node that is no call of an operator.
Reading read_call(const Model& model, NodeId node);

// What is meant by names that mean the same: a call of mm is one of matmul, permute one of
// transpose where it swaps two dimensions. First as it is spelled.
std::vector<Reading> read_meanings(const Model& model, NodeId node);
// The names under which a call of `name` may be read, itself among them.
std::vector<std::string_view> names_of_meanings(std::string_view name);

// The value of a number that is given as such, or by a tensor without dimensions that never
// changes; such a tensor's node is put into `nodes`.
std::optional<double> constant_number(const Model& model, const Arg& arg,
                                      std::vector<NodeId>& nodes);

bool is_commutative(std::string_view name);

// transformers' operator that is read as aten._grouped_mm. Unlike aten's, it takes every dtype and
// stride, and rows after the last group are zeros.
inline constexpr std::string_view kGroupedMmFallback = "transformers.grouped_mm_fallback.default";

}  // namespace refx::rules
