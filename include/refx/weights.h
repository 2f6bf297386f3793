// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBase.h>
#include <c10/core/Device.h>

#include <string>
#include <utility>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

// Both functions replace the tensors of a model and keep its steps, which are applied again in
// order at the same sites. Merged and folded weights are computed from the new tensors, and undo
// restores the new tensors exactly. They throw Error, and change nothing, if a step does not apply
// as before.

// Replaces all parameters and persistent buffers of the model's original, by their names there.
// Values are copied; the device, the memory layout and tied weights stay as they are. Throws Error
// if a name is missing or unknown, or a shape or dtype differs.
REFX_API void load_weights(Model& model,
                           const std::vector<std::pair<std::string, at::TensorBase>>& weights);

// Moves the tensors, and those that the graph creates, to a device. There is no such function for
// dtypes: an exported graph names the dtypes that its operators compute in.
REFX_API void move_to(Model& model, c10::Device device);

}  // namespace refx
