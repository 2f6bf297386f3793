// SPDX-License-Identifier: Apache-2.0

#include "text/spelling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "util/utf8.h"

namespace refx {

namespace {

constexpr std::array<std::string_view, 10> kReserved = {
    "None", "True", "False", "inf", "nan", "sym", "raw", "slice", "device", "complex"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

void append_byte(std::string& out, unsigned char byte) {
  constexpr char kHex[] = "0123456789abcdef";
  out += "\\x";
  out += kHex[byte >> 4];
  out += kHex[byte & 15];
}

void append_ascii(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  if (c < ' ' || c == '\x7f')
    append_byte(out, static_cast<unsigned char>(c));
  else
    out += c;
}

void append_finite(std::string& out, double value) {
  std::array<char, 64> buffer;
  const double magnitude = std::fabs(value);
  const bool fixed = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  out.append(buffer.data(), end);
  if (fixed && std::find(buffer.data(), end, '.') == end) out += ".0";
}

// A nan that is not the usual one keeps its bits.
void append_nan(std::string& out, double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  out += "nan";
  if (bits == std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN())) return;
  std::array<char, 16> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), bits, 16).ptr;
  out += "(0x";
  out.append(buffer.data(), end);
  out += ')';
}

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_name_char);
}

bool is_expr_char(char c) {
  return is_name_char(c) || std::string_view("+-*/%^<>= (),").find(c) != std::string_view::npos;
}

bool is_plain_expr(std::string_view expr) {
  if (expr.empty() || expr.front() == ' ' || expr.back() == ' ') return false;
  int depth = 0;
  for (char c : expr) {
    if (!is_expr_char(c) || (c == ',' && depth == 0)) return false;
    depth += (c == '(') - (c == ')');
    if (depth < 0) return false;
  }
  return depth == 0 && std::any_of(expr.begin(), expr.end(), is_letter);
}

bool is_reserved(std::string_view word) {
  return std::find(kReserved.begin(), kReserved.end(), word) != kReserved.end();
}

void append_name(std::string& out, std::string_view name) {
  if (is_plain_name(name))
    out += name;
  else
    append_string(out, name);
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    std::size_t length = 1;
    if (static_cast<signed char>(text[0]) >= 0) {
      append_ascii(out, text[0]);
    } else if (const std::size_t n = utf8_length(text); n > 0 && !starts_with_control(text)) {
      out += text.substr(0, n);
      length = n;
    } else {
      append_byte(out, static_cast<unsigned char>(text[0]));
    }
    text.remove_prefix(length);
  }
  out += '"';
}

void append_expr(std::string& out, std::string_view expr) {
  if (is_plain_expr(expr))
    out += expr;
  else
    append_string(out, expr);
}

void append_int(std::string& out, std::int64_t value) {
  std::array<char, 24> buffer;
  out.append(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr);
}

void append_double(std::string& out, double value) {
  if (std::isnan(value)) return append_nan(out, value);
  if (std::isinf(value)) {
    out += value < 0 ? "-inf" : "inf";
    return;
  }
  append_finite(out, value);
}

std::string shown(std::string_view name) {
  constexpr std::size_t kMost = 80;
  std::string out;
  append_string(out, name.substr(0, kMost));
  out.front() = out.back() = '\'';
  if (name.size() > kMost) out.insert(out.size() - 1, "...");
  return out;
}

}  // namespace refx
