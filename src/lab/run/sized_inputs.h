// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refx/measure.h"

namespace refx {

// The inputs to measure a model on: those given, if any; or of the batch, generated; or the usual.
Inputs sized_inputs(const Model& model, const Measure& measure);

// Said of a model that keeps state and was run on single calls.
inline constexpr const char* kOneCallWasMade =
    "each run is one call, but the model keeps state: ask for steps, or give a list of calls";

// Throws Error that names the input if the model of this name takes others than these.
void check_inputs_fit(const Model& model, const std::vector<c10::IValue>& inputs,
                      const std::string& name);

// The elements of the token ids in the calls after the first; 0 if there are none.
std::int64_t count_tokens(const Model& model, const Inputs& inputs);

// Where they come from and what they are: "generated with seed 0: f32[8, 16], i64[8]".
std::string describe_inputs(const Inputs& inputs);

}  // namespace refx
