#include "pt2/json.h"

#include <fmt/format.h>

#include <cmath>

#include "text/spelling.h"

namespace refx {

void append_json(std::string& out, std::string_view text) {
  out += '"';
  std::size_t plain = 0;  // from there on, nothing was escaped and nothing appended
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') continue;
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
