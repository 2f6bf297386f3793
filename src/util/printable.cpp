// SPDX-License-Identifier: Apache-2.0

#include "util/printable.h"

#include <fmt/format.h>

#include <algorithm>

#include "util/utf8.h"

namespace refx {

namespace {

std::string escape(std::string_view character, bool valid) {
  switch (character[0]) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  const char32_t code =
      valid ? code_point(character) : char32_t{static_cast<unsigned char>(character[0])};
  return code < 0x80 || !valid ? fmt::format("\\x{:02x}", std::uint32_t{code})
                               : fmt::format("\\u{:04x}", std::uint32_t{code});
}

std::string escaped(std::string_view text, bool keep_lines) {
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (plain) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    const bool as_it_is = (keep_lines && text[0] == '\n') || !starts_with_control(text);
    if (length > 0 && as_it_is)
      out += character;
    else
      out += escape(character, length > 0);
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace

std::string printable(std::string_view name) { return escaped(name, false); }
std::string printable_lines(std::string_view text) { return escaped(text, true); }

}  // namespace refx
