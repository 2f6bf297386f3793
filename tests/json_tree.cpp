// SPDX-License-Identifier: Apache-2.0

#include "json_tree.h"

#include <simdjson.h>

#include "graph_json/json.h"

namespace refx::testing {

namespace {

namespace dom = simdjson::dom;

Json tree_of(const dom::element& element) {
  Json out;
  if (element.is_array()) {
    out.kind = Json::Kind::list;
    for (const dom::element& item : element.get_array()) out.items.push_back(tree_of(item));
  } else if (element.is_object()) {
    out.kind = Json::Kind::object;
    for (const auto& [key, value] : element.get_object())
      out.fields.push_back({std::string(key), tree_of(value)});
  } else if (element.is_string()) {
    out = Json::quoted(std::string(element.get_string().value()));
  } else {
    out.text = simdjson::minify(element);
  }
  return out;
}

void append(std::string& out, const Json& json) {
  switch (json.kind) {
    case Json::Kind::scalar:
      out += json.text;
      break;
    case Json::Kind::text:
      append_json(out, json.text);
      break;
    case Json::Kind::list: {
      JsonList list(out, '[', ']');
      for (const Json& item : json.items) append(list.next(), item);
      break;
    }
    case Json::Kind::object: {
      JsonList list(out, '{', '}');
      for (const auto& [key, value] : json.fields) append(list.key(key), value);
      break;
    }
  }
}

}  // namespace

Json Json::parse(std::string_view text) {
  dom::parser parser;
  return tree_of(parser.parse(text.data(), text.size()));
}

Json Json::scalar(std::string text) { return {Kind::scalar, std::move(text), {}, {}}; }
Json Json::quoted(std::string text) { return {Kind::text, std::move(text), {}, {}}; }

Json Json::nest(int depth) {
  Json list{Kind::list, "", {}, {}};
  if (depth > 0) list.items.push_back(nest(depth - 1));
  return list;
}

Json& Json::operator[](std::string_view key) {
  for (auto& [name, value] : fields)
    if (name == key) return value;
  fields.push_back({std::string(key), Json()});
  return fields.back().second;
}

Json& Json::operator[](std::size_t index) { return items.at(index); }

void Json::erase(std::string_view key) {
  std::erase_if(fields, [&](const auto& field) { return field.first == key; });
}

std::string Json::print() const {
  std::string out;
  append(out, *this);
  return out;
}

}  // namespace refx::testing
