// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace refx {

// The text quoted as one word of a shell command.
std::string shell_word(std::string_view text);

}  // namespace refx
