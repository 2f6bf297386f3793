// SPDX-License-Identifier: Apache-2.0

#include "util/did_you_mean.h"

#include <algorithm>

namespace refx {

namespace {

constexpr std::size_t kLongestWord = 256;  // keeps the cost of a hostile text linear

// Optimal string alignment distance. If it exceeds `limit`, returns some number above `limit`.
std::size_t distance(std::string_view a, std::string_view b, std::size_t limit) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    if (*std::min_element(row.begin(), row.end()) > limit) return limit + 1;
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.empty() || word.size() > kLongestWord) return {};
  // One mistake in three letters: more would suggest unrelated words.
  std::size_t limit = std::max<std::size_t>(1, word.size() / 3);
  const std::string* best = nullptr;
  for (const std::string& candidate : candidates) {
    const auto [shorter, longer] = std::minmax({word.size(), candidate.size()});
    if (longer - shorter > limit) continue;
    const std::size_t edits = distance(word, candidate, limit);
    if (edits > limit) continue;
    best = &candidate;
    if (edits == 0) break;
    limit = edits - 1;  // a later candidate must be better
  }
  return best ? *best : std::string();
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? near : "; did you mean '" + near + "'?";
}

}  // namespace refx
