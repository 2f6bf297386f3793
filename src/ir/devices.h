// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

namespace refx {

// Whether tensors can be there, in this process and on this machine.
bool has_device(c10::Device device);

}  // namespace refx
