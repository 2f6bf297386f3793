#include "util/strict_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "refx/error.h"
#include "util/limits.h"

namespace refx {

namespace {

namespace dom = simdjson::dom;

class Checker {
 public:
  explicit Checker(std::string_view text) : escapes_(text.find("\\u") != text.npos) {}

  void value(const dom::element& element) {
    switch (element.type()) {
      case dom::element_type::OBJECT:
        object(dom::object(element));
        break;
      case dom::element_type::ARRAY: {
        const dom::array items(element);
        for (const dom::element item : items) value(item);
        break;
      }
      case dom::element_type::STRING:
        string(std::string_view(element));
        break;
      default:
        break;
    }
  }

 private:
  void object(const dom::object& object) {
    keys_.clear();
    for (const auto [key, item] : object) {
      string(key);
      keys_.push_back(key);
    }
    check_unique();
    for (const auto [key, item] : object) value(item);
  }

  // Without a hash, for which a hostile file could have chosen its keys.
  void check_unique() {
    constexpr std::size_t kFew = 8;
    if (keys_.size() <= kFew) {
      for (std::size_t i = 1; i < keys_.size(); ++i)
        if (std::find(keys_.begin(), keys_.begin() + i, keys_[i]) != keys_.begin() + i)
          fail_twice(keys_[i]);
      return;
    }
    std::sort(keys_.begin(), keys_.end());
    const auto twice = std::adjacent_find(keys_.begin(), keys_.end());
    if (twice != keys_.end()) fail_twice(*twice);
  }

  [[noreturn]] static void fail_twice(std::string_view key) {
    throw Error(fmt::format("the key '{}' stands twice in one object", key.substr(0, 200)));
  }

  // The text is UTF-8, so that only an escape can have left half of a surrogate pair.
  void string(std::string_view text) const {
    if (!escapes_) return;
    for (std::size_t at = 0; (at = text.find('\xed', at)) != text.npos; ++at)
      if (at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) >= 0xa0)
        throw Error("a string has half of a character");
  }

  bool escapes_;
  std::vector<std::string_view> keys_;
};

}  // namespace

dom::element parse_strict(dom::parser& parser, std::string_view text) {
  dom::element root;
  auto error =
      parser.allocate(std::max(text.size(), simdjson::SIMDJSON_PADDING), limits::kJsonDepth);
  if (!error) error = parser.parse(text.data(), text.size(), false).get(root);
  if (error == simdjson::DEPTH_ERROR)
    throw Error(fmt::format("it is nested more than {} levels deep", limits::kJsonDepth));
  if (error) throw Error(simdjson::error_message(error));
  Checker(text).value(root);
  return root;
}

}  // namespace refx
