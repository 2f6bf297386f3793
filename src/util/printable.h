// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace refx {

// A name, as it is shown to a person: what would move the cursor, change colours, begin a line or
// turn the text around is written as an escape, as are bytes that are no UTF-8. Names come from
// files that strangers made. What programs read (JSON, the text form) is exact instead.
std::string printable(std::string_view name);

// The same of a text whose lines are its own.
std::string printable_lines(std::string_view text);

}  // namespace refx
