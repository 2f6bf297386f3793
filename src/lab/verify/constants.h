// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>

#include "refx/model.h"

namespace refx {

// A model with its constants stored: values that depend only on stored tensors and literals, such
// as tables of positions, masks and casts of weights. They are the same in every run and only as
// exact as the model computes them, so the fp64 reference uses the values of the model, not more
// exact ones. Otherwise every fp32 table would count as an error of the model.
struct ConstantsStored {
  Model model;                        // a copy without history
  std::vector<StateId> constants;     // the new entries: computed in the model's own dtypes
  std::map<StateId, at::Tensor> off;  // their rounding errors, if they can be computed in fp64
};
enum class MeasureConstants : bool { no, yes };  // whether to fill `off`
ConstantsStored store_constants(const Model& model,
                                MeasureConstants measure = MeasureConstants::no);

}  // namespace refx
