#include "pt2/dom_json.h"

#include <unordered_set>

namespace refx {

void require_unique_keys(const dom::element& value) {
  if (value.is_array())
    for (const dom::element& item : value.get_array()) require_unique_keys(item);
  if (!value.is_object()) return;
  std::unordered_set<std::string_view> keys;
  for (const auto& [key, item] : value.get_object()) {
    if (!keys.insert(key).second) throw Error(fmt::format("'{}' stands twice in an object", key));
    require_unique_keys(item);
  }
}

}  // namespace refx
