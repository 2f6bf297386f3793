// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace refx {

// * matches any text, ? one character; everything else is literal. Takes time in the order of the
// pattern's length times the text's.
bool glob_match(std::string_view pattern, std::string_view text);
// The same for a path, or any path above it: "encoder.0" matches "encoder.0.query.weight".
bool glob_match_path(std::string_view pattern, std::string_view path);

}  // namespace refx
