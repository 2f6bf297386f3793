// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <simdjson.h>

#include <string_view>

namespace refx {

// Reads JSON that every reader understands in the same way. Readers differ on duplicate keys
// (Python takes the last, simdjson the first), NaN, numbers of any size and lone surrogates, so
// these are an Error, like invalid JSON. 64 bytes after the text must be readable (simdjson's
// padding).
simdjson::dom::element parse_strict(simdjson::dom::parser& parser, std::string_view text);

// The same check for an object that is then read on demand: walks through all of `text`, which the
// document reads, and rewinds the document. Throws Error, or simdjson_error for invalid JSON.
void check_strict(simdjson::ondemand::document& document, std::string_view text);

}  // namespace refx
