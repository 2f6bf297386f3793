// SPDX-License-Identifier: Apache-2.0

#include "manual_page.h"

#include <fmt/format.h>

#include <sstream>

namespace refx::cli {

namespace {

// Unfilled, because help texts are aligned already. A line that begins like a request (. or ') is
// escaped, and so are hyphens, which groff would turn into characters that cannot be copied.
std::string verbatim(const std::string& text) {
  std::string out = ".nf\n";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('.') || line.starts_with('\'')) out += "\\&";
    for (char c : line) {
      if (c == '\\')
        out += "\\e";
      else if (c == '-')
        out += "\\-";
      else
        out += c;
    }
    out += '\n';
  }
  return out + ".fi\n";
}

}  // namespace

std::string manual_page(const std::string& help, const std::vector<Chapter>& commands) {
  std::string page = fmt::format(
      ".TH REFX 1 \"\" \"refx {}\" \"User commands\"\n"
      ".SH NAME\nrefx \\- reversible rewrites of PyTorch graphs\n.SH DESCRIPTION\n{}",
      REFX_VERSION, verbatim(help));
  page += ".SH COMMANDS\n";
  for (const Chapter& command : commands)
    page += fmt::format(".SS \"{}\"\n{}", command.title, verbatim(command.help));
  return page;
}

}  // namespace refx::cli
