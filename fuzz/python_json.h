// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace refx::fuzz {

// Faults unless Python's json module reads the same in a document as refx does.
void compare_with_python(std::string_view json);

}  // namespace refx::fuzz
