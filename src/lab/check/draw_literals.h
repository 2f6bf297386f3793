// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/jit_type.h>

#include <string>

#include "lab/check/requirements.h"
#include "lab/check/shape_generator.h"

namespace refx::checking {

// Draws values of variables that are not tensors. An operator may refuse them: the caller tries.

// A number that meets the requirements in most cases, and otherwise misses them closely or is
// extreme.
Arg draw_number(const Requirements& requirements, Random& random);

// A dimension of the first known shape.
Arg draw_dim(const ShapeGenerator& shapes, Random& random);

// A value for the argument of that name and type, whatever it is. The type may be null.
Arg draw_argument(const std::string& name, c10::TypePtr type, ShapeGenerator& shapes,
                  Random& random);

}  // namespace refx::checking
