// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>

#include "refx/model.h"

namespace refx {

// A model that stores what it computes from stored tensors and literals alone: tables of positions,
// masks, casts of weights. They are the same in every run, and they are as exact as the model
// computes them: a reference in fp64 uses the values that the model uses, not more exact ones.
struct ConstantsStored {
  Model model;                        // a copy without history
  std::vector<StateId> constants;     // the new entries: computed in the model's own dtypes
  std::map<StateId, at::Tensor> off;  // how far they are from what fp64 gives, where that is known
};
enum class MeasureConstants : bool { no, yes };  // whether to fill `off`
ConstantsStored store_constants(const Model& model,
                                MeasureConstants measure = MeasureConstants::no);

}  // namespace refx
