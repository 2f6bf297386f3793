// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "refx/model.h"

namespace refx::cli {

// A small vision transformer in the aten dialect, in evaluation mode, with random weights that are
// the same in every run and every dtype.
Model demo_model(at::ScalarType dtype);

at::Tensor demo_image(at::ScalarType dtype);

}  // namespace refx::cli
