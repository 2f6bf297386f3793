// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refx/model.h"

namespace refx {

// What everybody who uses steps relies on, asked of one that was read from somewhere. Each throws
// an Error that says what is wrong.

// Before its values are put into the model: whether they can be.
void check_values(const Model& model, const Step& step);
// The same for one of them.
void check_value(const Model& model, const Node& node);
void check_value(const Model& model, const StateEntry& entry);
void check_value(const Model& model, const Module& module);

// The whole step, with what was there before.
void check_step(const Step& step);
// Whether its pieces lie inside the tensors that it made.
void check_pieces(const Step& step);
// Whether the model that it left, or came from, is a valid one where these edits touched it.
void check_model(const Model& model, const Step& step, const std::vector<Edit>& edits);

}  // namespace refx
