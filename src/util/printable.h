// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace refx {

// A name as it is shown to a person. Characters that would move the cursor, change colours, start a
// line or reverse the direction of text are escaped, and so are bytes that are not UTF-8, because
// names come from untrusted files. JSON and the text form, which programs read, are exact instead.
std::string printable(std::string_view name);

// The same, but keeps the line breaks of the text.
std::string printable_lines(std::string_view text);

}  // namespace refx
