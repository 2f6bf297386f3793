// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace refx {

// Text in columns.

using Row = std::vector<std::string>;

// A line for each row, indented; columns as wide as what is in them, the last one not padded. What
// is in them is shown as printable() has it.
std::string columns(std::vector<Row> rows);

}  // namespace refx
