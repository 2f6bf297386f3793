// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "util/columns.h"
#include "util/human_bytes.h"
#include "util/printable.h"

namespace refx::cli {

// Everything that the program prints goes through here. Values that are inserted into a format are
// escaped by printable(), because names come from untrusted files. Shown is a text that refx made,
// with its own colours and line breaks.
struct Shown {
  std::string text;
};

template <class T>
decltype(auto) shown(const T& value) {
  if constexpr (std::is_same_v<T, Shown>)
    return (value.text);
  else if constexpr (std::is_convertible_v<const T&, std::string_view>)
    return printable(value);
  else
    return (value);
}

// To stdout. These and note() throw Error if a file that the program read was changed meanwhile,
// because the result may then mix the old contents with the new ones.
void say_exactly(std::string_view text);  // without escaping: JSON and scripts
void say_lines(std::string_view text);    // a text of the library that has several lines
template <class... T>
void say(fmt::format_string<decltype(shown(std::declval<const T&>()))...> format,
         const T&... values) {
  say_exactly(fmt::format(format, shown(values)...));
}

// Bold on a terminal, unless NO_COLOR asks for plain text.
Shown heading(std::string_view text);
// A line of a difference: green if it starts with +, red if with -, under the same conditions.
Shown coloured_line(std::string_view line);

// "1 step", "2 steps".
std::string count(std::size_t n, std::string_view noun);

// With --quiet, errors are the only messages.
void set_quiet(bool on);
bool is_quiet();
// A message to a person, on stderr.
void note(std::string_view message);

// Prints a table, its head as a heading().
void say_table(const TextTable& table, std::size_t indent = 0);

}  // namespace refx::cli
