// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace refx {

// 32 hexadecimal digits that are the same for the same text, in every process.
std::string fingerprint(std::string_view text);

}  // namespace refx
