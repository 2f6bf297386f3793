// SPDX-License-Identifier: Apache-2.0
#pragma once

// diff/: the difference of two models, for people.

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace refx {

// One name of two lists: where it stands in each.
struct Aligned {
  std::optional<std::size_t> before, after;
  bool moved = false;
};

// Every name of two lists of unique names, once, in an order that keeps that of `after`; names that
// are in `before` only come where they stood there. The fewest names possible are moved.
std::vector<Aligned> align(const std::vector<std::string_view>& before,
                           const std::vector<std::string_view>& after);

}  // namespace refx
