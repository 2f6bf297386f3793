// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace refx::fuzz {

// Fails unless Python's json module reads the same values from a document as refx does.
void compare_with_python(std::string_view json);

}  // namespace refx::fuzz
