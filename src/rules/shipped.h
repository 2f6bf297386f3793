// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

namespace refx::rules {

// The texts of the files in rules/, in the order of their names.
const std::vector<std::string_view>& shipped_texts();

}  // namespace refx::rules
