#include "util/json_writer.h"

#include <fmt/format.h>

#include <cmath>

namespace refx {

namespace {

// The length of the UTF-8 sequence at the beginning of the text; 0 if it is not one.
std::size_t sequence(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t n = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (n == 0 || n > text.size()) return 0;
  for (std::size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool surrogate = first == 0xed && byte(1) >= 0xa0;
  const bool too_large = first == 0xf4 && byte(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : n;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const char c = text[0];
    const std::size_t n = sequence(text);
    if (n == 0)
      out += "\\ufffd";
    else if (c == '"' || c == '\\')
      out.append("\\").append(1, c);
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += text.substr(0, n);
    text.remove_prefix(n == 0 ? 1 : n);
  }
  return out + '"';
}

Json& Json::open(char bracket, Layout layout) {
  separate();
  out_ += bracket;
  levels_.push_back({bracket == '{' ? '}' : ']', layout});
  return *this;
}

Json& Json::end() {
  const Level level = levels_.back();
  levels_.pop_back();
  if (level.layout == kLines && !level.empty) out_ += '\n' + std::string(2 * levels_.size(), ' ');
  out_ += level.close;
  return *this;
}

Json& Json::key(std::string_view name) {
  separate();
  out_ += json_string(name) + ": ";
  after_key_ = true;
  return *this;
}

Json& Json::value(double v) {
  if (!std::isfinite(v)) return null();
  std::string text = fmt::format("{}", v);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return raw(text);
}

Json& Json::raw(std::string_view text) {
  separate();
  out_ += text;
  return *this;
}

void Json::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) return;
  Level& level = levels_.back();
  if (level.layout == kLines)
    out_ += (level.empty ? "\n" : ",\n") + std::string(2 * levels_.size(), ' ');
  else if (!level.empty)
    out_ += ", ";
  level.empty = false;
}

}  // namespace refx
