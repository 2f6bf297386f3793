// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "refx/hint.h"

namespace refx::cli {

// What would help, in the program's words: by its commands and flags.
std::string in_flags(Hint hint);

}  // namespace refx::cli
