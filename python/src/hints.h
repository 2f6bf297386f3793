// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "refx/hint.h"

namespace refx::python {

// What would help, in Python's words: by its arguments.
std::string in_arguments(Hint hint);

}  // namespace refx::python
