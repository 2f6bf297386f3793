// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace refx {

// How the text form spells names, strings, numbers and symbolic expressions. The Cursor reads them.

// A name that needs no quotes: letters, digits, '_' and '.'.
inline bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}
bool is_plain_name(std::string_view name);
// An expression that needs no quotes: has a letter, balanced parentheses, commas only in them.
bool is_plain_expr(std::string_view expr);
bool is_expr_char(char c);
// Words that stand for a value: a bare node name must not be one of them.
bool is_reserved(std::string_view word);

void append_name(std::string& out, std::string_view name);
void append_string(std::string& out, std::string_view text);  // "…", escaped as in Python
void append_expr(std::string& out, std::string_view expr);
void append_int(std::string& out, std::int64_t value);
void append_double(std::string& out, double value);  // Python's repr: shortest that reads back

// 'name', for an error message: escaped, and not endless.
std::string shown(std::string_view name);

}  // namespace refx
