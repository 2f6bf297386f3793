// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <vector>

#include "refx/model.h"

namespace refx::testing {

// What the model computes when all of it is done in fp64, by a model that is built anew: tests
// judge the library by it, so it shares nothing with the library's own. Throws Error where that has
// no meaning, because the model looks at the bits of a type.
std::vector<at::Tensor> results_in_double(const Model& model,
                                          const std::vector<c10::IValue>& inputs);

}  // namespace refx::testing
