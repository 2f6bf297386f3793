// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include "refx/inputs.h"
#include "refx/model.h"

namespace refx {

// The model with its tensors, and those that its graph creates, on this device. A copy; without
// history if anything was moved.
Model on_device(const Model& model, c10::Device device);
std::vector<c10::IValue> on_device(const std::vector<c10::IValue>& inputs, c10::Device device);
Inputs on_device(Inputs inputs, c10::Device device);

}  // namespace refx
