// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "engine/snapshot.h"
#include "engine/survey.h"

namespace refx::fx {

// Takes over into the model, and into what its history keeps, what is no rewrite: training, .to()
// and .train(). `toggled` is the training mode of the GraphModule as a whole, if that changed.
// Looks up the ids of the tensors that were found.
void adopt_tensors(Model& model, const std::vector<TensorSnapshot>& snapshots, Survey& survey,
                   std::optional<bool> toggled, bool by_others);

}  // namespace refx::fx
