// SPDX-License-Identifier: Apache-2.0

#include "graph_json/json.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "text/spelling.h"

namespace refx {

namespace {

constexpr std::uint64_t kOnes = 0x0101010101010101, kHighs = 0x8080808080808080;

// The first byte from there on that a JSON string has to escape; eight are looked at together. A
// byte x is below n where x - n borrows, unless its own high bit was set.
std::size_t find_escaped(std::string_view text, std::size_t from) {
  for (; from + sizeof(std::uint64_t) <= text.size(); from += sizeof(std::uint64_t)) {
    std::uint64_t x;
    std::memcpy(&x, text.data() + from, sizeof x);
    const std::uint64_t quotes = x ^ (kOnes * '"'), slashes = x ^ (kOnes * '\\');
    const std::uint64_t found =
        ((x - kOnes * 0x20) & ~x) | ((quotes - kOnes) & ~quotes) | ((slashes - kOnes) & ~slashes);
    if (found & kHighs) break;
  }
  while (from < text.size() && static_cast<unsigned char>(text[from]) >= 0x20 &&
         text[from] != '"' && text[from] != '\\')
    ++from;
  return from;
}

}  // namespace

void append_json(std::string& out, std::string_view text) {
  out += '"';
  std::size_t plain = 0;  // from there on, nothing was escaped and nothing appended
  for (std::size_t i = 0; (i = find_escaped(text, i)) < text.size(); ++i) {
    const char c = text[i];
    out += text.substr(plain, i - plain);
    plain = i + 1;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    }
  }
  out += text.substr(plain);
  out += '"';
}

void append_json(std::string& out, double value) {
  if (std::isnan(value))
    out += "\"NaN\"";
  else if (std::isinf(value))
    out += value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  else
    append_double(out, value);
}

std::string json_quoted(std::string_view text) {
  std::string out;
  append_json(out, text);
  return out;
}

}  // namespace refx
