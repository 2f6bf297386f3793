// SPDX-License-Identifier: Apache-2.0

#include "util/glob.h"

namespace refx {

bool glob_match(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0;
  // After a mismatch, only the last * needs to match more: what an earlier one could match is also
  // matched by the later one.
  std::size_t star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool glob_match_path(std::string_view pattern, std::string_view path) {
  for (std::size_t end = path.size(); end != path.npos && end > 0;
       end = path.find_last_of("./", end - 1))
    if (glob_match(pattern, path.substr(0, end))) return true;
  return false;
}

}  // namespace refx
