// SPDX-License-Identifier: Apache-2.0

#include "util/strict_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <vector>

#include "refx/error.h"
#include "util/limits.h"

namespace refx {

namespace {

namespace dom = simdjson::dom;
namespace ondemand = simdjson::ondemand;

[[noreturn]] void fail_deep() {
  throw Error(fmt::format("it is nested more than {} levels deep", limits::kJsonDepth));
}

// The keys of the objects on the path to the current value, and the check of every string.
class Rules {
 public:
  explicit Rules(std::string_view text) : escapes_(text.find("\\u") != text.npos) {}

  std::size_t open() const { return keys_.size(); }
  void key(std::string_view key) {
    string(key);
    keys_.push_back(key);
  }
  // Checks and drops the keys since open(). No hash table: a hostile file could choose keys that
  // collide in it.
  void close(std::size_t from) {
    constexpr std::ptrdiff_t kFew = 8;  // fewer comparisons than sorting takes
    const auto begin = keys_.begin() + static_cast<std::ptrdiff_t>(from), end = keys_.end();
    if (end - begin <= kFew) {
      for (auto key = begin; key != end; ++key)
        if (std::find(begin, key, *key) != key) fail_twice(*key);
    } else {
      std::sort(begin, end);
      if (const auto twice = std::adjacent_find(begin, end); twice != end) fail_twice(*twice);
    }
    keys_.erase(begin, end);
  }

  // The text is valid UTF-8, so only an escape can produce half of a surrogate pair.
  void string(std::string_view text) const {
    if (!escapes_) return;
    for (std::size_t at = 0; (at = text.find('\xed', at)) != text.npos; ++at)
      if (at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) >= 0xa0)
        throw Error("a string has half of a surrogate pair");
  }

 private:
  [[noreturn]] static void fail_twice(std::string_view key) {
    throw Error(fmt::format("the key '{}' appears twice in one object", key.substr(0, 200)));
  }

  bool escapes_;
  std::vector<std::string_view> keys_;
};

class Checker {
 public:
  explicit Checker(std::string_view text) : rules_(text) {}

  void value(const dom::element& element) {
    switch (element.type()) {
      case dom::element_type::OBJECT: {
        const std::size_t from = rules_.open();
        for (const auto [key, item] : dom::object(element)) {
          rules_.key(key);
          value(item);
        }
        rules_.close(from);
        break;
      }
      case dom::element_type::ARRAY:
        for (const dom::element item : dom::array(element)) value(item);
        break;
      case dom::element_type::STRING:
        rules_.string(std::string_view(element));
        break;
      default:
        break;
    }
  }

 private:
  Rules rules_;
};

// Reads every value, so that simdjson reports errors in it. Strings without escapes need no check
// beyond UTF-8 and are not copied.
class Walker {
 public:
  explicit Walker(std::string_view text) : rules_(text), end_(text.data() + text.size()) {}

  void object(ondemand::object object, std::size_t depth) {
    if (depth > limits::kJsonDepth) fail_deep();
    const std::size_t from = rules_.open();
    for (ondemand::field field : object) {
      rules_.key(key(field));
      value(field.value(), depth + 1);
    }
    rules_.close(from);
  }

 private:
  void array(ondemand::array array, std::size_t depth) {
    if (depth > limits::kJsonDepth) fail_deep();
    for (ondemand::value item : array) value(item, depth + 1);
  }

  std::string_view key(ondemand::field& field) const {
    const char* begin = field.key().raw();
    const std::string_view rest(begin, static_cast<std::size_t>(end_ - begin));
    const std::string_view raw = rest.substr(0, rest.find('"'));
    return raw.find('\\') == raw.npos ? raw : field.unescaped_key().value();
  }

  void value(ondemand::value value, std::size_t depth) {
    switch (value.type()) {
      case ondemand::json_type::object:
        return object(value.get_object(), depth);
      case ondemand::json_type::array:
        return array(value.get_array(), depth);
      case ondemand::json_type::number:
        return void(value.get_number().value());
      case ondemand::json_type::string:
        if (value.raw_json_token().find('\\') != std::string_view::npos)
          rules_.string(value.get_string());
        else
          value.get_raw_json_string().value();
        return;
      case ondemand::json_type::boolean:
        return void(value.get_bool().value());
      case ondemand::json_type::null:
        if (!value.is_null()) throw simdjson::simdjson_error(simdjson::N_ATOM_ERROR);
    }
  }

  Rules rules_;
  const char* end_;
};

}  // namespace

void check_strict(ondemand::document& document, std::string_view text) {
  Walker(text).object(document.get_object(), 1);
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)  // not at the end
    throw simdjson::simdjson_error(simdjson::TRAILING_CONTENT);
  document.rewind();
}

dom::element parse_strict(dom::parser& parser, std::string_view text) {
  dom::element root;
  auto error =
      parser.allocate(std::max(text.size(), simdjson::SIMDJSON_PADDING), limits::kJsonDepth);
  if (!error) error = parser.parse(text.data(), text.size(), false).get(root);
  if (error == simdjson::DEPTH_ERROR) fail_deep();
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (error) throw Error(simdjson::error_message(error));
  Checker(text).value(root);
  return root;
}

}  // namespace refx
