// SPDX-License-Identifier: Apache-2.0
#pragma once

// util/: helpers that belong to nobody, for the library and its faces.

#include <string>
#include <string_view>
#include <vector>

namespace refx {

// The candidate that `word` was probably meant to be: the one fewest typing slips away (a letter
// added, left out, replaced, or swapped with the next), the first of equals. Empty if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// "; did you mean 'linear'?", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace refx
