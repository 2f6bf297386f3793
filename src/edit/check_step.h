// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refx/model.h"

namespace refx {

// Check the invariants of steps that come from a file. Each function throws Error, which says what
// is wrong.

// Checks that the values of the step can be stored in the model. To be called before they are.
void check_values(const Model& model, const Step& step);
// The same for one value.
void check_value(const Model& model, const Node& node);
void check_value(const Model& model, const StateEntry& entry);
void check_value(const Model& model, const Module& module);

// Checks the complete step, including the values from before it.
void check_step(const Step& step);
// Checks that its pieces lie inside the tensors that it made.
void check_pieces(const Step& step);
// Checks that the model before or after the step is valid where these edits changed it.
void check_model(const Model& model, const Step& step, const std::vector<Edit>& edits);

}  // namespace refx
