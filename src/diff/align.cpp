// SPDX-License-Identifier: Apache-2.0

#include "diff/align.h"

#include <algorithm>
#include <unordered_map>

namespace refx {

namespace {

using Index = std::size_t;
constexpr Index kNone = static_cast<Index>(-1);

// Marks the members of a longest rising subsequence; kNone is never one.
std::vector<bool> longest_rising(const std::vector<Index>& values) {
  std::vector<Index> ends;  // positions: ends[k] ends the best run of length k + 1
  std::vector<Index> previous(values.size(), kNone);
  for (Index i = 0; i < values.size(); ++i) {
    if (values[i] == kNone) continue;
    const bool rises = ends.empty() || values[ends.back()] < values[i];
    const auto at = rises ? ends.end()
                          : std::lower_bound(ends.begin(), ends.end(), values[i],
                                             [&](Index e, Index v) { return values[e] < v; });
    if (at != ends.begin()) previous[i] = *(at - 1);
    if (at == ends.end())
      ends.push_back(i);
    else
      *at = i;
  }
  std::vector<bool> member(values.size());
  for (Index i = ends.empty() ? kNone : ends.back(); i != kNone; i = previous[i]) member[i] = true;
  return member;
}

}  // namespace

std::vector<Aligned> align(const std::vector<std::string_view>& before,
                           const std::vector<std::string_view>& after) {
  std::unordered_map<std::string_view, Index> places;
  places.reserve(before.size());
  for (Index i = 0; i < before.size(); ++i) places.emplace(before[i], i);

  std::vector<Index> origin(after.size(), kNone);
  std::vector<bool> stays(before.size());
  for (Index j = 0; j < after.size(); ++j)
    if (auto it = places.find(after[j]); it != places.end()) {
      origin[j] = it->second;
      stays[it->second] = true;
    }

  const std::vector<bool> in_order = longest_rising(origin);
  std::vector<Aligned> result;
  result.reserve(before.size() + after.size());
  Index i = 0;
  auto removed_up_to = [&](Index end) {
    for (; i < end; ++i)
      if (!stays[i]) result.push_back({i, {}});
  };
  for (Index j = 0; j < after.size(); ++j) {
    if (in_order[j]) removed_up_to(origin[j]);
    if (origin[j] == kNone)
      result.push_back({{}, j});
    else
      result.push_back({origin[j], j, !in_order[j]});
  }
  removed_up_to(before.size());
  return result;
}

}  // namespace refx
