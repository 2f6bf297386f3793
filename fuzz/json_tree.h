#pragma once

#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "target.h"

namespace refx::fuzz {

// A JSON document that can be broken at will: keys may stand twice, numbers are text.
struct Json {
  enum Kind { scalar, string, list, object } kind = scalar;
  std::string text;                                        // of a scalar, or what a string says
  std::vector<std::pair<std::string, Json>> members = {};  // of a list: without keys
};

std::optional<Json> parse_json(std::string_view text);  // none if it is not JSON
std::string to_text(const Json& json);
Json* member(Json& object, std::string_view key);  // null if there is none

// One change: a value for another, a member gone, doubled, moved, a number at its limits, …
void mutate(Json& json, std::minstd_rand& random, MutateBytes mutate_bytes);

}  // namespace refx::fuzz
