// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace refx {

// The page without its data, which the build makes from web/. Empty if the build had no Node.js.
std::string_view page_template();

// The placeholders of the data and the title in it.
inline constexpr std::string_view kDataMark = "%REFX_DATA%";
inline constexpr std::string_view kTitleMark = "%REFX_TITLE%";

}  // namespace refx
