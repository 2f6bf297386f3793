// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace refx::testing {

// A JSON document to change at will.
struct Json {
  enum class Kind : std::uint8_t { scalar, text, list, object };
  struct Field;

  Kind kind = Kind::scalar;
  std::string text = "null";  // of a scalar as it is written, of a text without quotes
  std::vector<Json> items;
  std::vector<Field> fields;

  static Json parse(std::string_view text);
  // A number, true, false or null; a text; a list of lists of … nothing.
  static Json scalar(std::string text);
  static Json quoted(std::string text);
  static Json nest(int depth);

  Json& operator[](std::string_view key);  // a new one, if there is none
  Json& operator[](std::size_t index);
  void erase(std::string_view key);
  std::string print() const;
};

struct Json::Field {
  std::string first;  // its key
  Json second;
};

}  // namespace refx::testing
