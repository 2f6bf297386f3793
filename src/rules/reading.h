// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/SmallVector.h>

#include <string_view>
#include <vector>

#include "book/result_types.h"
#include "refx/model.h"

namespace refx::rules {

// A call under aten's name, with all its arguments, independent of the spelling in the model.
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
  bool inverse = false;  // a division by c, read as a multiplication by 1/c

  const Given* find(std::string_view name) const;
};

// The call as it is spelled; without a name if the node calls no operator.
Reading read_call(const Model& model, NodeId node);

// The call under all names that mean the same (book/meanings.h): mm also as matmul, permute also as
// transpose if it swaps two dimensions. The first reading is the call as it is spelled.
std::vector<Reading> read_meanings(const Model& model, NodeId node);

// The type of what a call gives, see book::result_type.
TypePtr result_type(const Reading& call, const book::TypeOfArg& type_of);

// The value of an argument that is a number, or a tensor without dimensions that never changes. The
// node of such a tensor is added to `nodes`.
std::optional<double> constant_number(const Model& model, const Arg& arg,
                                      std::vector<NodeId>& nodes);

}  // namespace refx::rules
