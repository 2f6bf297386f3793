// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "pt2/source.h"
#include "refx/editor.h"

namespace refx {

// Reads the original of a source, whose records are known, into an empty model, and records in the
// source which part of the text describes which object. Returns Model::kept_modules().
std::vector<std::string> read_program(Pt2Source& source, Editor& editor);

}  // namespace refx
