// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "refx/model.h"

namespace refx {

// The processor or accelerator, its number of cores, the system, the versions of torch and refx.
std::string describe_machine(c10::Device device);

// Adds a note if other programs kept the machine busy in the last minute.
void note_if_busy(std::vector<std::string>& notes);

// The device of this name; the device of the model if the name is empty. Throws Error if there is
// none.
c10::Device to_device(const std::string& name, const Model& model);

}  // namespace refx
