// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pt2/source.h"
#include "refx/editor.h"

namespace refx {

// Reads the original of a source (its records are known) into an empty model, and remembers in the
// source which text stands for what.
void read_program(Pt2Source& source, Editor& editor);

}  // namespace refx
