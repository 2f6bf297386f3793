#pragma once

#include "refx/measure.h"

namespace refx {

// The inputs to measure a model on: those given, if any; or of the batch, generated; or the usual.
Inputs sized_inputs(const Model& model, const Measure& measure);

// Throws Error that names the input if the model of this name takes others than these.
void check_inputs_fit(const Model& model, const std::vector<c10::IValue>& inputs,
                      const std::string& name);

// Where they come from and what they are: "generated with seed 0: f32[8, 16], i64[8]".
std::string describe_inputs(const Inputs& inputs);

}  // namespace refx
