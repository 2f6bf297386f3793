// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>

#include "refx/error.h"

namespace refx {

namespace dom = simdjson::dom;

// Fields of a JSON document that was parsed as a whole. A field that is missing or of another
// kind is an Error; only find_in() returns nothing for a missing field.

template <class T>
constexpr const char* kJsonKind = "a value";
template <>
inline constexpr const char* kJsonKind<std::string_view> = "a string";
template <>
inline constexpr const char* kJsonKind<std::int64_t> = "an integer";
template <>
inline constexpr const char* kJsonKind<std::uint64_t> = "a non-negative integer";
template <>
inline constexpr const char* kJsonKind<bool> = "true or false";
template <>
inline constexpr const char* kJsonKind<dom::array> = "a list";
template <>
inline constexpr const char* kJsonKind<dom::object> = "an object";

// `name` says in the message which value it is.
template <class T>
T value_as(const dom::element& value, std::string_view name) {
  T out;
  if (value.get(out)) throw Error(fmt::format("'{}' is not {}", name, kJsonKind<T>));
  return out;
}

template <class T>
std::optional<T> find_in(const dom::element& object, std::string_view key) {
  dom::element value;
  const simdjson::error_code error = object[key].get(value);
  if (error == simdjson::NO_SUCH_FIELD) return std::nullopt;
  if (error) throw Error(fmt::format("the value that should contain '{}' is not an object", key));
  return value_as<T>(value, key);
}

template <class T>
T get_in(const dom::element& object, std::string_view key) {
  if (auto value = find_in<T>(object, key)) return *value;
  throw Error(fmt::format("'{}' is missing", key));
}

inline std::string text_in(const dom::element& object, std::string_view key) {
  return std::string(get_in<std::string_view>(object, key));
}

// The two items of a list that has two.
inline std::pair<dom::element, dom::element> pair_in(const dom::element& value,
                                                     std::string_view name) {
  const auto list = value_as<dom::array>(value, name);
  if (list.size() != 2) throw Error(fmt::format("'{}' is not a pair", name));
  return {list.at(0), list.at(1)};
}

}  // namespace refx
