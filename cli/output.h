#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace refx::cli {

// Bold on a terminal, unless NO_COLOR asks for plain text.
std::string heading(std::string_view text);
// A line of a difference: green if it starts with +, red if with -, under the same conditions.
std::string coloured_line(std::string_view line);

// "1 step", "2 steps".
std::string count(std::size_t n, std::string_view noun);

// "0 bytes", "812 bytes", "1.5 kB", "438 MB".
std::string human_bytes(std::uint64_t bytes);

// The columns that a text takes on a terminal. Its bytes are UTF-8, or each counts as one.
std::size_t display_width(std::string_view text);

// With --quiet there are no messages but errors.
void set_quiet(bool on);
bool is_quiet();
// A message to a person, on stderr.
void note(std::string_view message);

// Rows of texts in aligned columns. Nothing is shortened.
class Table {
 public:
  enum Align { left, right };
  explicit Table(std::vector<Align> columns) : columns_(std::move(columns)) {}
  void head(std::vector<std::string> cells);
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.size() == (has_head_ ? 1u : 0u); }
  // Every line with this indentation and without blanks at its end.
  std::string text(std::size_t indent = 0) const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
  bool has_head_ = false;
};

}  // namespace refx::cli
