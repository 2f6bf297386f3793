// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace simdjson::dom {
class element;
}

namespace refx {

// Calls `read` for every line of the file that is a JSON object; for none if there is no file.
// Throws Error if it is not a regular file. Skips lines that are incomplete, because a killed
// process may leave one, and lines for which `read` throws a simdjson_error.
void read_json_lines(const std::string& path,
                     const std::function<void(const simdjson::dom::element&)>& read);

// Appends the line in one write, so that several processes can write to the file.
void append_line(const std::string& path, std::string_view line);

}  // namespace refx
