// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace refx {

// A hash of the text as 32 hexadecimal digits, the same in every process.
std::string fingerprint(std::string_view text);

}  // namespace refx
