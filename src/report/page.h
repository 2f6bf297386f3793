// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace refx {

// The page without its data, made from web/ when refx is built. Empty: this build has none.
std::string_view page_template();

// Where the data and the title go in it.
inline constexpr std::string_view kDataMark = "%REFX_DATA%";
inline constexpr std::string_view kTitleMark = "%REFX_TITLE%";

}  // namespace refx
