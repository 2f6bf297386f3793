// SPDX-License-Identifier: Apache-2.0

#include "archive/zip_format.h"

#include <algorithm>

namespace refx::zip {

std::string_view name_fault(std::string_view name) {
  if (name.empty()) return "it has no name";
  if (name.size() > kMax16) return "its name is too long";
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    return "its name has control characters";
  if (name.find('\\') != name.npos) return "its name has a backslash";
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return "its name is not a plain path";
    begin = end + 1;
  }
  return {};
}

}  // namespace refx::zip
