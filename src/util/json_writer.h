// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace refx {

// A JSON string with its quotes. Characters that control a terminal are escaped; bytes that are not
// UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

// Writes one JSON value for the reports of the program and the library, to be read by programs and
// people (graph_json/json.h writes model files, byte for byte as Python does): a container opened
// with kLines has a line for each member, any other stands on one line.
class Json {
 public:
  enum Layout { kInline, kLines };

  Json& object(Layout layout = kInline) { return open('{', layout); }
  Json& array(Layout layout = kInline) { return open('[', layout); }
  Json& end();
  Json& key(std::string_view name);

  Json& value(std::string_view text) { return raw(json_string(text)); }
  Json& value(const char* text) { return value(std::string_view(text)); }
  Json& value(bool v) { return raw(v ? "true" : "false"); }
  Json& value(double v);  // null for infinities and NaN
  Json& value(std::int64_t v) { return raw(std::to_string(v)); }
  Json& value(std::uint64_t v) { return raw(std::to_string(v)); }
  Json& value(std::uint32_t v) { return raw(std::to_string(v)); }
  Json& value(int v) { return raw(std::to_string(v)); }
  Json& null() { return raw("null"); }
  Json& json(std::string_view text) { return raw(text); }  // a value that is already JSON

  template <class T>
  Json& member(std::string_view name, const T& v) {
    return key(name).value(v);
  }

  // The text, with a line break at its end.
  std::string take() { return std::move(out_) + '\n'; }

 private:
  struct Level {
    char close;
    Layout layout;
    bool empty = true;
  };
  Json& open(char bracket, Layout layout);
  Json& raw(std::string_view text);
  void separate();

  std::string out_;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

}  // namespace refx
