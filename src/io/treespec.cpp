// SPDX-License-Identifier: Apache-2.0

#include "io/treespec.h"

#include <fmt/format.h>
#include <simdjson.h>

#include "refx/error.h"
#include "util/limits.h"
#include "util/strict_json.h"

namespace refx {

namespace {

namespace dom = simdjson::dom;
using Keys = std::vector<TreeSpec::Key>;

TreeSpec::Key key_of(const dom::element& item) {
  TreeSpec::Key key;
  key.is_number = item.is_int64();
  if (key.is_number) key.number = item;
  key.text = item.is_string() ? std::string(std::string_view(item)) : simdjson::minify(item);
  return key;
}

Keys keys_in(const dom::element& list) {
  Keys keys;
  if (!list.is_array()) return keys;
  for (const dom::element item : dom::array(list)) {
    if (item.is_array() || item.is_object()) return {};
    keys.push_back(key_of(item));
  }
  return keys;
}

// The keys of a dict; of a defaultdict, an object around them; of a dataclass, the names of the
// fields that are given and of those that are None. Mostly as JSON in a string.
Keys keys_of_context(dom::element context, std::size_t children) {
  dom::parser parser;
  dom::element inner;
  if (context.is_string()) {
    const std::string text(std::string_view{context});
    if (parser.parse(text).get(context) != simdjson::SUCCESS) return {};
  }
  if (context.is_object() && context["dict_context"].get(inner) == simdjson::SUCCESS)
    context = inner;
  Keys keys = keys_in(context);
  if (keys.size() == children) return keys;
  if (context.is_array() && context.at(0).get(inner) == simdjson::SUCCESS) keys = keys_in(inner);
  return keys.size() == children ? keys : Keys();
}

TreeSpec::NodeKind kind_of(std::string_view type) {
  if (type == "builtins.tuple") return TreeSpec::NodeKind::tuple;
  if (type == "builtins.list" || type == "collections.deque") return TreeSpec::NodeKind::list;
  if (type == "builtins.dict" || type == "collections.OrderedDict" ||
      type == "collections.defaultdict")
    return TreeSpec::NodeKind::dict;
  return TreeSpec::NodeKind::other;
}

[[noreturn]] void malformed(const char* what) {
  throw Error(fmt::format("the description of the inputs or outputs is damaged: {}", what));
}

TreeSpec read(const dom::element& element, int depth) {
  if (depth > limits::kValueDepth) malformed("it is nested too deeply");
  TreeSpec spec;
  dom::element type, context;
  dom::array children;
  if (element["type"].get(type) != simdjson::SUCCESS ||
      element["children_spec"].get(children) != simdjson::SUCCESS)
    malformed("a part has no type or no children");
  for (const dom::element child : children) spec.children.push_back(read(child, depth + 1));
  if (type.is_null()) {
    if (!spec.children.empty()) malformed("a leaf has children");
    return spec;
  }
  spec.num_leaves = 0;
  for (const TreeSpec& child : spec.children) spec.num_leaves += child.num_leaves;
  if (!type.is_string()) malformed("a type is not a string");
  spec.type = std::string(std::string_view(type));
  spec.kind = kind_of(spec.type);
  const bool with_names =
      spec.kind == TreeSpec::NodeKind::dict || spec.kind == TreeSpec::NodeKind::other;
  if (with_names && element["context"].get(context) == simdjson::SUCCESS)
    spec.keys = keys_of_context(context, spec.children.size());
  if (spec.kind == TreeSpec::NodeKind::dict && spec.keys.size() != spec.children.size())
    malformed("a dict has more keys than children, or fewer");
  return spec;
}

}  // namespace

TreeSpec parse_treespec(std::string_view json) {
  dom::parser parser;
  dom::element root, version, spec;
  const simdjson::padded_string padded(json);
  try {
    root = parse_strict(parser, padded);
  } catch (const Error& error) {
    malformed(error.what());
  }
  if (!root.is_array() || root.at(0).get(version) != simdjson::SUCCESS ||
      root.at(1).get(spec) != simdjson::SUCCESS)
    malformed("it is not [version, spec]");
  if (!version.is_int64() || std::int64_t(version) != 1)
    throw Error("this version of the description of inputs and outputs is not supported");
  return read(spec, 0);
}

}  // namespace refx
