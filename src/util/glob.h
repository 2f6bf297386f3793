#pragma once

#include <string_view>

namespace refx {

// * stands for any text, ? for one character; the rest is literal. Linear in pattern times text.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace refx
