// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refx/measure.h"

namespace refx {

// Throws Error if the number of steps or threads, the batch size or the duration is out of range.
void require_valid(const Measure& measure);

// The inputs to measure a model on: the given ones; generated ones of the given batch size; or the
// default of inputs_for(). Throws Error if `measure` is not valid.
Inputs sized_inputs(const Model& model, const Measure& measure);

// A note for a model that keeps state and was run on single calls.
inline constexpr const char* kOneCallWasMade =
    "the model keeps state, but each run is a single call: ask for steps, or give a list of calls";

// Throws Error that names the first input which does not fit the model. `name` is that of the
// model.
void check_inputs_fit(const Model& model, const std::vector<c10::IValue>& inputs,
                      const std::string& name);

// The elements of the token ids in the calls after the first; 0 if there are none.
std::int64_t count_tokens(const Model& model, const Inputs& inputs);

// Their origin and types: "generated with seed 0: f32[8, 16], i64[8]".
std::string describe_inputs(const Inputs& inputs);

}  // namespace refx
