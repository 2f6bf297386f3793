// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "util/human_bytes.h"
#include "util/printable.h"

namespace refx::cli {

// Everything that the program prints goes through here. What is filled into a format is shown as
// printable() has it, on one line: names come from files that strangers made. What refx made up
// itself, with its colours and line breaks, is Shown.
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

// To stdout. These and note() throw Error if a file that the program read was changed meanwhile:
// then there is no telling of what the result is.
void say_exactly(std::string_view text);  // JSON and the like
void say_lines(std::string_view text);    // a text of the library, whose lines are its own
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

// The columns that a text takes on a terminal. Its bytes are UTF-8, or each counts as one.
std::size_t display_width(std::string_view text);

// With --quiet there are no messages but errors.
void set_quiet(bool on);
bool is_quiet();
// A message to a person, on stderr.
void note(std::string_view message);

// Rows of texts in aligned columns, each shown as printable() has it. Nothing is shortened.
class Table {
 public:
  enum Align { left, right };
  explicit Table(std::vector<Align> columns) : columns_(std::move(columns)) {}
  void head(std::vector<std::string> cells);
  void row(std::vector<std::string> cells);
  bool empty() const { return rows_.size() == (has_head_ ? 1u : 0u); }
  // Every line with this indentation and without blanks at its end.
  Shown text(std::size_t indent = 0) const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
  bool has_head_ = false;
};

}  // namespace refx::cli
