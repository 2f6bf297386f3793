// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace refx {

// The first line of a message of torch, which adds a stack trace below it.
inline std::string first_line(std::string_view message) {
  return std::string(message.substr(0, message.find('\n')));
}

}  // namespace refx
