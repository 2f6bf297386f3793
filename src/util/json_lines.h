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
// Throws Error if it is not a regular file. A line that was cut short is passed over, as are those
// for which `read` throws a simdjson_error.
void read_json_lines(const std::string& path,
                     const std::function<void(const simdjson::dom::element&)>& read);

// Adds the line in one write, so that processes can share the file.
void append_line(const std::string& path, std::string_view line);

}  // namespace refx
