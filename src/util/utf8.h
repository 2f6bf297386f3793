// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace refx {

// The length of the UTF-8 character at the beginning of the text; 0 if it is not one.
std::size_t utf8_length(std::string_view text);

// Whether the first character does something to a screen instead of being shown on it: controls,
// line separators, and what reverses the direction of the text after it.
bool starts_with_control(std::string_view text);

// Of a valid character.
char32_t code_point(std::string_view character);

}  // namespace refx
