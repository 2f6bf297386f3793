// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pt2/source.h"

namespace refx {

// A file with a history says twice what the model is: to PyTorch by its program and weights, to
// refx by the original and the steps. Throws Error unless both say the same. Takes time in
// proportion to the program; weights are read only where the file holds one of them twice.
void check_shown(const Pt2Source& source, const Model& model);

}  // namespace refx
