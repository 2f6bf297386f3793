// SPDX-License-Identifier: Apache-2.0

#include "manual_page.h"

#include <fmt/format.h>

#include <sstream>

namespace refx::cli {

namespace {

// As it stands: help texts are in columns already. A line must not begin as a request does, and a
// hyphen is to be one that can be copied.
std::string as_it_stands(const std::string& text) {
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
      REFX_VERSION, as_it_stands(help));
  page += ".SH COMMANDS\n";
  for (const Chapter& command : commands)
    page += fmt::format(".SS \"{}\"\n{}", command.title, as_it_stands(command.help));
  return page;
}

}  // namespace refx::cli
