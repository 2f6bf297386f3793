// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace refx::cli {

// The help of one command.
struct Chapter {
  std::string title, help;
};

// The manual page, for man(1): the program's help, then each command's.
std::string manual_page(const std::string& help, const std::vector<Chapter>& commands);

}  // namespace refx::cli
