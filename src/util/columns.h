// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace refx {

using Row = std::vector<std::string>;

// Rows of texts in aligned columns, for people. Cells are shown as printable() writes them, and are
// never shortened.
class TextTable {
 public:
  enum Align { left, right };
  // Further columns are aligned left.
  explicit TextTable(std::vector<Align> columns = {}) : columns_(std::move(columns)) {}
  void head(Row titles);
  void row(Row cells);
  // Whether there is no row below the head.
  bool empty() const { return rows_.size() == (has_head_ ? 1u : 0u); }

  // Styles a whole line, for example in bold.
  using Style = std::string (*)(std::string_view line);
  // A line for each row, with this indentation and without blanks at its end.
  std::string text(std::size_t indent = 0, Style style_head = nullptr) const;

 private:
  std::vector<Align> columns_;
  std::vector<Row> rows_;
  bool has_head_ = false;
};

// These rows as a table of left-aligned columns, indented.
std::string columns(const std::vector<Row>& rows);

// The columns that a text takes on a terminal.
std::size_t display_width(std::string_view text);

}  // namespace refx
