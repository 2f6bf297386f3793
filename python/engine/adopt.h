// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "engine/snapshot.h"
#include "engine/survey.h"

namespace refx::fx {

// Applies to the model and its history what is not a rewrite: the effects of training, .to() and
// .train(). `toggled` is the new training mode of the GraphModule, if it changed. Sets the ids of
// the tensors in the survey.
void adopt_tensors(Model& model, const std::vector<TensorSnapshot>& snapshots, Survey& survey,
                   std::optional<bool> toggled, bool by_others);

}  // namespace refx::fx
