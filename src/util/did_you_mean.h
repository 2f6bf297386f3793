// SPDX-License-Identifier: Apache-2.0
#pragma once

// util/: general helpers for the library, the program and the Python package.

#include <string>
#include <string_view>
#include <vector>

namespace refx {

// The candidate that `word` was probably meant to be: the one with the smallest edit distance (a
// letter added, removed, replaced, or swapped with the next), the first of several. Empty if no
// candidate is similar.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// "; did you mean 'linear'?", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace refx
