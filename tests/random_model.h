// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>
#include <vector>

#include "property.h"
#include "refx/model.h"

namespace refx::testing {

// One layer or operator of a random model. Any numbers mean something, whatever stands before it,
// and lower ones something plainer: a recipe with parts left out or lowered is one of a smaller
// model.
struct Instruction {
  int kind = 0, from = 0;                 // what, and on which value
  int count = 0;                          // of linears on the same value
  int a = 0, b = 0, c = 0, d = 0, e = 0;  // details
  int output = 0;                         // whether its value is an output too
};

// A model: linears, convolutions and batch norms in a row and side by side, with divisions, views
// and in-place operators between them.
struct Recipe {
  int spelling = 0, dtype = 0, grad = 0, input = 0, seed = 0;
  std::vector<Instruction> instructions;
};
std::ostream& operator<<(std::ostream& out, const Recipe& recipe);

rc::Gen<Recipe> any_recipe();
Model make_model(const Recipe& recipe);

}  // namespace refx::testing
