// SPDX-License-Identifier: Apache-2.0

#include "pt2/hash_text.h"

#include <fmt/format.h>

#include <charconv>

#include "refx/error.h"

namespace refx {

constexpr std::size_t kHashDigits = 32;

std::string hash_text(const ContentHash& hash) {
  return fmt::format("{:016x}{:016x}", hash[1], hash[0]);
}

ContentHash read_hash(const std::string& text) {
  ContentHash out = {};
  const char* half = text.data() + kHashDigits / 2;
  const char* end = text.data() + text.size();
  if (text.size() != kHashDigits || std::from_chars(half, end, out[0], 16).ptr != end ||
      std::from_chars(text.data(), half, out[1], 16).ptr != half)
    throw Error(fmt::format("'{}' is not a hash", text));
  return out;
}

}  // namespace refx
