// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <simdjson.h>

#include <string_view>

namespace refx {

// Reads JSON that means the same to every reader. Of two equal keys Python takes the last and
// simdjson the first, and Python knows NaN, numbers of any size and halves of characters: an Error
// says so, as for a text that is no JSON. At least 64 bytes after the text can be read.
simdjson::dom::element parse_strict(simdjson::dom::parser& parser, std::string_view text);

// The same of an object that is then read on demand: walks through all of `text`, of which the
// document is, and rewinds it. An Error, or a simdjson_error for a text that is no JSON.
void check_strict(simdjson::ondemand::document& document, std::string_view text);

}  // namespace refx
