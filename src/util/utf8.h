// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace refx {

// The length of the UTF-8 character at the beginning of the text; 0 if it is not one.
std::size_t utf8_length(std::string_view text);

// Whether the first character controls the display instead of being shown: control characters, line
// separators, and characters that change the direction of text.
bool starts_with_control(std::string_view text);

// The code point of a valid character.
char32_t code_point(std::string_view character);

}  // namespace refx
