// SPDX-License-Identifier: Apache-2.0

#include "output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

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

void say_table(const TextTable& table, std::size_t indent) {
  say_exactly(table.text(indent, [](std::string_view line) { return heading(line).text; }));
}

}  // namespace refx::cli
