// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace refx {

// Whether the expression is one symbol: "s0".
bool is_symbol(std::string_view expression);

// The value of a size such as "2*s0 + 1", as sympy prints it (+ - * // ** and parentheses).
// None if it uses anything else, contains a symbol without a value, or overflows.
std::optional<std::int64_t> evaluate_size(std::string_view expression,
                                          const std::map<std::string, std::int64_t>& symbols);

}  // namespace refx
