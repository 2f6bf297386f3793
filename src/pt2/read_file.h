// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "pt2/source.h"

namespace refx {

// The model of an archive, with the steps of its history if they are asked for. Whether PyTorch
// sees the same model is not looked at; see check_shown.
Model read_file(const std::shared_ptr<Pt2Source>& source, bool history);

}  // namespace refx
