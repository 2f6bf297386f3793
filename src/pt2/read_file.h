// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "pt2/source.h"

namespace refx {

// Reads the model of an archive, with the steps of its history if `history` is true. Does not check
// that PyTorch reads the same model; see check_program_matches_history().
Model read_file(const std::shared_ptr<Pt2Source>& source, bool history);

}  // namespace refx
