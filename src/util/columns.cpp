// SPDX-License-Identifier: Apache-2.0

#include "util/columns.h"

#include <fmt/format.h>

#include "util/printable.h"

namespace refx {

std::string columns(std::vector<Row> rows) {
  std::vector<std::size_t> widths;
  for (Row& row : rows)
    for (std::string& cell : row) cell = printable(cell);
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line = " ";
    for (std::size_t i = 0; i < row.size(); ++i)
      line += fmt::format(" {:<{}} ", row[i], i + 1 < row.size() ? widths[i] : 0);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace refx
