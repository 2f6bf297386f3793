#pragma once

#include <c10/core/Device.h>

#include <string>

#include "refx/model.h"

namespace refx {

// The processor or accelerator, its number of cores, the system, the versions of torch and refx.
std::string describe_machine(c10::Device device);

// The load of the last minute, per core; 0 where it is not known.
double load_per_core();

// The device of this name, or where the model is; throws Error if it is not there.
c10::Device to_device(const std::string& name, const Model& model);

}  // namespace refx
