// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pt2/source.h"

namespace refx {

// A file with a history contains the model twice: PyTorch reads the program and the weights, refx
// reads the original and the steps. Throws Error unless both are the same model. Takes time in
// proportion to the program; it reads a weight only if the file contains it twice.
void check_program_matches_history(const Pt2Source& source, const Model& model);

}  // namespace refx
