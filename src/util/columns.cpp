// SPDX-License-Identifier: Apache-2.0

#include "util/columns.h"

#include <locale.h>

#include <algorithm>
#include <cwchar>

#include "util/printable.h"

namespace refx {

namespace {

constexpr std::size_t kIndent = 2;  // of the tables in the library's texts
constexpr std::size_t kGap = 2;     // blanks between columns

Row shown(Row cells) {
  for (std::string& cell : cells) cell = printable(cell);
  return cells;
}

// Widths depend on the locale. It is set for this thread only: a library must not change that of
// the program that it is part of.
class Utf8Locale {
 public:
  Utf8Locale() : before_(utf8() ? uselocale(utf8()) : locale_t{}) {}
  ~Utf8Locale() {
    if (before_) uselocale(before_);
  }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

  explicit operator bool() const { return before_ != locale_t{}; }

 private:
  static locale_t utf8() {
    static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t{});
    return locale;
  }
  locale_t before_;
};

}  // namespace

std::size_t display_width(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }))
    return text.size();
  const Utf8Locale locale;
  if (!locale) return text.size();  // each byte counts as one column
  std::size_t width = 0;
  std::mbstate_t state{};
  while (!text.empty()) {
    wchar_t c = 0;
    const std::size_t n = std::mbrtowc(&c, text.data(), text.size(), &state);
    const bool valid = n > 0 && n <= text.size();
    if (!valid) state = {};
    const int columns = valid ? wcwidth(c) : 1;
    width += columns > 0 ? static_cast<std::size_t>(columns) : 0;
    text.remove_prefix(valid ? n : 1);
  }
  return width;
}

void TextTable::row(Row cells) { rows_.push_back(shown(std::move(cells))); }

void TextTable::head(Row titles) {
  rows_.insert(rows_.begin(), shown(std::move(titles)));
  has_head_ = true;
}

std::string TextTable::text(std::size_t indent, Style style_head) const {
  std::vector<std::size_t> widths;
  for (const Row& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::string out;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::string line(indent, ' ');
    for (std::size_t i = 0; i < rows_[r].size(); ++i) {
      const std::string& cell = rows_[r][i];
      const std::string blank(widths[i] - display_width(cell), ' ');
      const bool to_the_right = i < columns_.size() && columns_[i] == right;
      if (i > 0) line.append(kGap, ' ');
      line += to_the_right ? blank + cell : cell + blank;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += (r == 0 && has_head_ && style_head ? style_head(line) : line) + '\n';
  }
  return out;
}

std::string columns(const std::vector<Row>& rows) {
  TextTable table;
  for (const Row& row : rows) table.row(row);
  return table.text(kIndent);
}

}  // namespace refx
