// SPDX-License-Identifier: Apache-2.0

#include "util/json_writer.h"

#include <fmt/format.h>

#include <cmath>

#include "util/utf8.h"

namespace refx {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const char c = text[0];
    const std::size_t n = utf8_length(text);
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
    else if (starts_with_control(text))
      out += fmt::format("\\u{:04x}", std::uint32_t{code_point(text.substr(0, n))});
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
