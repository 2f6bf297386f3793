// SPDX-License-Identifier: Apache-2.0

#include "text/cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "refx/error.h"
#include "text/spelling.h"

namespace refx {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// How many of the first characters spell a number: -?digits(.digits)?(e[+-]?digits)?, loosely.
std::size_t number_length(std::string_view text) {
  std::size_t n = !text.empty() && text[0] == '-' ? 1 : 0;
  for (; n < text.size(); ++n) {
    const char c = text[n];
    const bool sign = (c == '+' || c == '-') && n > 0 && (text[n - 1] == 'e' || text[n - 1] == 'E');
    if (!is_name_char(c) && !sign) break;
  }
  return n;
}

template <class T, class... Base>
bool convert(std::string_view text, T& value, std::errc& error, Base... base) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value, base...);
  error = result.ec;
  return result.ptr == text.data() + text.size();
}

}  // namespace

// ---- lines -------------------------------------------------------------------------------------

void Cursor::skip_spaces() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c != ' ' && c != '\t' && c != '\r' && !(c == '\n' && depth_ > 0)) return;
    ++at_;
  }
}

std::size_t Cursor::position() {
  skip_spaces();
  return at_;
}

bool Cursor::next_line() {
  while (at_line_end() || peek('#')) {
    at_ = std::min(text_.find('\n', at_), text_.size());
    if (at_ == text_.size()) return false;
    ++at_;
  }
  return true;
}

bool Cursor::at_line_end() {
  skip_spaces();
  return at_ == text_.size() || text_[at_] == '\n';
}

void Cursor::expect_line_end() {
  if (!at_line_end()) fail_expected("the end of the line");
}

// ---- words -------------------------------------------------------------------------------------

bool Cursor::peek(char c) {
  skip_spaces();
  return at_ < text_.size() && text_[at_] == c;
}

bool Cursor::peek_word() {
  skip_spaces();
  return at_ < text_.size() && is_name_char(text_[at_]);
}

bool Cursor::peek_number() {
  skip_spaces();
  return at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '-');
}

bool Cursor::peek_quote() { return peek('"') || peek('\''); }

bool Cursor::accept(char c) {
  const bool there = peek(c);
  if (there) ++at_;
  return there;
}

bool Cursor::accept(std::string_view word) {
  const std::size_t start = position();
  if (this->word() == word) return true;
  at_ = start;
  return false;
}

void Cursor::expect(char c) {
  if (!accept(c)) fail_expected(fmt::format("'{}'", c));
}

void Cursor::expect(std::string_view word) {
  if (!accept(word)) fail_expected(fmt::format("'{}'", word));
}

void Cursor::enter(char open) {
  expect(open);
  if (++depth_ > kDeepest) fail(at_ - 1, fmt::format("more than {} brackets deep", kDeepest));
}

void Cursor::leave(char close) {
  expect(close);
  --depth_;
}

std::string_view Cursor::word() {
  const std::size_t start = position();
  while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
  return text_.substr(start, at_ - start);
}

std::string Cursor::name(std::string_view what) {
  if (peek_quote()) return string();
  if (!peek_word()) fail_expected(what);
  return std::string(word());
}

std::string_view Cursor::bare_expr() {
  const std::size_t start = position();
  int open = 0;
  for (; at_ < text_.size() && is_expr_char(text_[at_]); ++at_) {
    const char c = text_[at_];
    if (open == 0 && (c == ',' || c == ')')) break;
    open += (c == '(') - (c == ')');
  }
  std::string_view expr = text_.substr(start, at_ - start);
  while (expr.ends_with(' ')) expr.remove_suffix(1);
  return expr;
}

bool Cursor::boolean() {
  if (accept("True")) return true;
  if (accept("False")) return false;
  fail_expected("True or False");
}

// ---- strings -----------------------------------------------------------------------------------

std::string Cursor::string() {
  if (!peek_quote()) fail_expected("a string in quotes");
  const std::size_t start = at_;
  const char quote = text_[at_++];
  std::string out;
  while (at_ < text_.size() && text_[at_] != '\n') {
    const char c = text_[at_++];
    if (c == quote) return out;
    out += c == '\\' ? escaped() : c;
  }
  fail(start, "a string without its closing quote");
}

// What stands for one character after a backslash.
char Cursor::escaped() {
  const std::size_t start = at_ - 1;
  const char c = at_ < text_.size() ? text_[at_++] : '\0';
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case '\\':
    case '\'':
    case '"':
      return c;
    case 'x': {
      unsigned byte = 0;
      std::errc error;
      const std::string_view hex = text_.substr(at_, 2);
      if (hex.size() < 2 || !convert(hex, byte, error, 16)) break;
      at_ += 2;
      return static_cast<char>(byte);
    }
    default:
      break;
  }
  fail(start, "an unknown escape; known are \\n \\r \\t \\\\ \\' \\\" and \\xNN");
}

// ---- numbers -----------------------------------------------------------------------------------

std::variant<std::int64_t, double> Cursor::number() {
  const std::size_t start = position();
  const std::string_view text = text_.substr(start, number_length(text_.substr(start)));
  at_ += text.size();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  std::errc error;
  std::int64_t integer = 0;
  if (convert(text, integer, error)) {
    if (error == std::errc()) return integer;
    fail(start, fmt::format("{} does not fit into 64 bits", shown(text)));
  }
  double real = 0;
  if (text.empty() || !convert(text, real, error) || error == std::errc::invalid_argument) {
    at_ = start;
    fail_expected("a number");
  }
  if (error != std::errc())
    fail(start, fmt::format("{} is out of the range of a double", shown(text)));
  return real;
}

std::int64_t Cursor::integer() {
  const std::size_t start = position();
  if (!peek_number()) fail_expected("an integer");
  const auto value = number();
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  at_ = start;
  fail_expected("an integer");
}

// ---- failures ----------------------------------------------------------------------------------

void Cursor::fail(std::size_t at, const std::string& message) const {
  const std::string_view before = text_.substr(0, at);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::string_view in_line = before.substr(before.rfind('\n') + 1);  // npos + 1 is 0
  const auto column =
      1 + std::count_if(in_line.begin(), in_line.end(), [](char c) { return (c & 0xc0) != 0x80; });
  throw Error(fmt::format("line {}, column {}: {}", line, column, message));
}

void Cursor::fail_expected(std::string_view what) {
  const std::size_t start = position();
  fail(start, fmt::format("expected {}, found {}", what, found()));
}

std::string Cursor::found() const {
  if (at_ == text_.size()) return "the end of the text";
  if (text_[at_] == '\n') return "the end of the line";
  std::size_t length = 0;
  while (at_ + length < text_.size() && is_name_char(text_[at_ + length])) ++length;
  return shown(text_.substr(at_, std::max<std::size_t>(length, 1)));
}

}  // namespace refx
