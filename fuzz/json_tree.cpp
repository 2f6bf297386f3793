#include "json_tree.h"

#include <simdjson.h>

#include <array>

#include "pt2/json.h"

namespace refx::fuzz {

namespace {

namespace dom = simdjson::dom;

Json tree(const dom::element& element) {
  Json out;
  switch (element.type()) {
    case dom::element_type::OBJECT:
      out.kind = Json::object;
      for (const auto& [key, value] : element.get_object())
        out.members.emplace_back(key, tree(value));
      break;
    case dom::element_type::ARRAY:
      out.kind = Json::list;
      for (const auto& value : element.get_array()) out.members.emplace_back("", tree(value));
      break;
    case dom::element_type::STRING:
      out.kind = Json::string;
      out.text = element.get_string().value();
      break;
    default:
      out.text = simdjson::minify(element);
  }
  return out;
}

void append(std::string& out, const Json& json) {
  if (json.kind == Json::scalar) {
    out += json.text;
  } else if (json.kind == Json::string) {
    append_json(out, json.text);
  } else {
    const bool keyed = json.kind == Json::object;
    JsonList items(out, keyed ? '{' : '[', keyed ? '}' : ']');
    for (const auto& [key, value] : json.members)
      append(keyed ? items.key(key) : items.next(), value);
  }
}

void collect(Json& json, std::vector<Json*>& all) {
  all.push_back(&json);
  for (auto& [key, value] : json.members) collect(value, all);
}

std::size_t below(std::size_t limit, std::minstd_rand& random) { return random() / 7 % limit; }

template <class T>
auto& any(T& items, std::minstd_rand& random) {
  return items[below(items.size(), random)];
}

Json strange_value(std::minstd_rand& random) {
  static const std::array<const char*, 24> scalars = {"0",
                                                      "1",
                                                      "-1",
                                                      "2",
                                                      "7",
                                                      "63",
                                                      "64",
                                                      "127",
                                                      "200",
                                                      "255",
                                                      "9999",
                                                      "2147483647",
                                                      "2147483648",
                                                      "4294967295",
                                                      "4294967296",
                                                      "9223372036854775807",
                                                      "-9223372036854775808",
                                                      "18446744073709551615",
                                                      "1e308",
                                                      "1.5",
                                                      "-0.0",
                                                      "true",
                                                      "false",
                                                      "null"};
  static const std::array<const char*, 10> strings = {
      "", "x", "../x", "\x1b[2J\n", "NaN", "Infinity", "s0*s0", "cuda:99", "-", "\xf0\x9f\x98\x80"};
  switch (below(4, random)) {
    case 0:
      return {Json::string, any(strings, random)};
    case 1:
      return {below(2, random) ? Json::list : Json::object, ""};
    default:
      return {Json::scalar, any(scalars, random)};
  }
}

void change_members(Json& json, const std::vector<Json*>& all, std::minstd_rand& random) {
  auto& members = json.members;
  const std::size_t i = below(members.size(), random), j = below(members.size(), random);
  switch (below(6, random)) {
    case 0:
      members.erase(members.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    case 1: {
      auto copy = members[i];
      members.insert(members.begin() + static_cast<std::ptrdiff_t>(j), std::move(copy));
      break;
    }
    case 2:
      std::swap(members[i], members[j]);
      break;
    case 3:
      std::swap(members[i].second, members[j].second);
      break;
    case 4:
      members[i].first = members[j].first;
      break;
    default: {
      Json other = *all[below(all.size(), random)];
      members[i].second = std::move(other);
    }
  }
}

void nest(Json& json, std::size_t depth) {
  for (std::size_t i = 0; i < depth; ++i) {
    Json outer{Json::list, ""};
    outer.members.emplace_back("", std::move(json));
    json = std::move(outer);
  }
}

}  // namespace

std::optional<Json> parse_json(std::string_view text) {
  dom::parser parser;
  dom::element root;
  if (parser.parse(text.data(), text.size()).get(root)) return {};
  return tree(root);
}

std::string to_text(const Json& json) {
  std::string out;
  append(out, json);
  return out;
}

Json* member(Json& object, std::string_view key) {
  for (auto& [name, value] : object.members)
    if (name == key) return &value;
  return nullptr;
}

void mutate(Json& json, std::minstd_rand& random, MutateBytes mutate_bytes) {
  std::vector<Json*> all;
  collect(json, all);
  Json& chosen = *any(all, random);
  if (!chosen.members.empty() && below(3, random)) return change_members(chosen, all, random);
  const std::size_t what = below(20, random);
  if (what < 9) {  // what stands in another place of the same kind
    std::vector<Json*> same;
    for (Json* other : all)
      if (other->kind == chosen.kind) same.push_back(other);
    Json other = *any(same, random);
    chosen = std::move(other);
  } else if (what < 12 && chosen.kind == Json::string) {
    chosen.text = mutate_bytes(chosen.text);
  } else if (what == 19) {
    nest(chosen, below(3, random) ? 1 : 1200);
  } else {
    chosen = strange_value(random);
  }
}

}  // namespace refx::fuzz
