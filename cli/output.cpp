// SPDX-License-Identifier: Apache-2.0

#include "output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <cwchar>

#include "files.h"

namespace refx::cli {

namespace {

bool quiet = false;

bool with_colour() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) && !(no_color && *no_color) && term &&
         std::string_view(term) != "dumb";
}

}  // namespace

Shown heading(std::string_view text) {
  return {with_colour() ? fmt::format("\033[1m{}\033[0m", printable(text)) : printable(text)};
}

Shown coloured_line(std::string_view line) {
  const char first = line.empty() ? ' ' : line[0];
  const int colour = first == '+' ? 32 : first == '-' ? 31 : first == '@' ? 36 : 0;
  if (colour == 0 || !with_colour()) return {printable(line)};
  return {fmt::format("\033[{}m{}\033[0m", colour, printable(line))};
}

std::string count(std::size_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::size_t display_width(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }))
    return text.size();
  static const bool utf8 = std::setlocale(LC_CTYPE, "C.UTF-8") != nullptr;
  if (!utf8) return text.size();
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

void set_quiet(bool on) { quiet = on; }
bool is_quiet() { return quiet; }

void say_exactly(std::string_view text) {
  require_unchanged_files();
  std::fwrite(text.data(), 1, text.size(), stdout);
}
void say_lines(std::string_view text) { say_exactly(printable_lines(text)); }

void note(std::string_view message) {
  require_unchanged_files();
  if (!quiet) fmt::print(stderr, "{}\n", printable(message));
}

void Table::row(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

void Table::head(std::vector<std::string> cells) {
  rows_.insert(rows_.begin(), std::move(cells));
  has_head_ = true;
}

Shown Table::text(std::size_t indent) const {
  std::vector<std::size_t> widths(columns_.size());
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], display_width(row[i]));

  std::string out;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::string line(indent, ' ');
    for (std::size_t i = 0; i < rows_[r].size(); ++i) {
      const std::string& cell = rows_[r][i];
      const std::string blank(widths[i] - display_width(cell), ' ');
      if (i > 0) line += "  ";
      line += columns_[i] == right ? blank + cell : cell + blank;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += (r == 0 && has_head_ ? heading(line).text : line) + '\n';
  }
  return {std::move(out)};
}

}  // namespace refx::cli
