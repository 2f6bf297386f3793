// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "ir/content.h"

namespace refx {

// A hash of contents in a saved history: 128 bits, in hexadecimal. read_hash() throws Error for any
// other text.
std::string hash_text(const ContentHash& hash);
ContentHash read_hash(const std::string& text);

// Instead of a hash that the writer did not know.
constexpr const char* kChanged = "changed";

}  // namespace refx
