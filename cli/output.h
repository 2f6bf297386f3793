#pragma once

#include <string>
#include <string_view>

namespace refx::cli {

// Bold on a terminal, unless NO_COLOR asks for plain text.
std::string heading(std::string_view text);

// "1 step", "2 steps".
std::string count(std::size_t n, std::string_view noun);

// A JSON string with its quotes.
std::string json_string(std::string_view text);

}  // namespace refx::cli
