// SPDX-License-Identifier: Apache-2.0

#include "graph_json/read_json.h"

#include <fmt/format.h>

#include <limits>
#include <new>

#include "refx/error.h"
#include "util/strict_json.h"

namespace refx {

std::string Trail::text() const {
  std::string out;
  for (const Item& item : steps_) {
    if (item.index != kNone)
      out += fmt::format("[{}]", item.index);
    else
      out += fmt::format("{}{}", out.empty() ? "" : ".", item.name);
  }
  return out;
}

JsonDocument::JsonDocument(std::string file, std::string_view record, std::string_view text)
    : file_(std::move(file)), record_(record), text_(text) {}

ondemand::document JsonDocument::parse() {
  // simdjson does not check that it got its buffer for strings, only tries once more to get it when
  // it starts to parse. A parser that may not grow any more reports a missing buffer there.
  if (const auto error = parser_.allocate(text_.size())) {
    if (error == simdjson::MEMALLOC) throw std::bad_alloc();
    throw simdjson::simdjson_error(error);
  }
  parser_.set_max_capacity(0);
  ondemand::document document;
  const simdjson::padded_string_view padded(text_.data(), text_.size(),
                                            text_.size() + simdjson::SIMDJSON_PADDING);
  if (const auto error = parser_.iterate(padded).get(document)) {
    if (error == simdjson::CAPACITY || error == simdjson::MEMALLOC) throw std::bad_alloc();
    throw simdjson::simdjson_error(error);
  }
  try {
    check_strict(document, text_);
  } catch (const Error& error) {
    fail(error.what());
  }
  return document;
}

void JsonDocument::fail(const std::string& what) const {
  const std::string where = trail.text();
  throw Error(
      fmt::format("{}: record '{}'{}{}: {}; the file is damaged or not from torch.export.save",
                  file_, record_, where.empty() ? "" : ", ", where, what));
}

std::optional<ondemand::value> find_field(ondemand::object& object, std::string_view key) {
  ondemand::value value;
  const auto error = object[key].get(value);
  if (error == simdjson::NO_SUCH_FIELD) return std::nullopt;
  if (error) throw simdjson::simdjson_error(error);
  return value;
}

std::string string_in(ondemand::value value) { return std::string(value.get_string().value()); }

double double_in(ondemand::value value) {
  if (value.type() != ondemand::json_type::string) {
    // As Python does it, for which -0 is an integer and has no sign.
    if (value.is_integer()) return static_cast<double>(value.get_int64().value());
    return value.get_double();
  }
  const std::string_view text = value.get_string();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  throw simdjson::simdjson_error(simdjson::NUMBER_ERROR);
}

}  // namespace refx
