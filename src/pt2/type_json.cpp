// SPDX-License-Identifier: Apache-2.0

#include "pt2/type_json.h"

#include <fmt/format.h>

#include "graph_json/json.h"
#include "pt2/value_json.h"
#include "refx/error.h"
#include "util/limits.h"

namespace refx {

namespace {

std::vector<Dim> dims(const dom::element& item, const char* key) {
  std::vector<Dim> out;
  for (const dom::element& dim : get_in<dom::array>(item, key)) {
    if (dim.is_array()) {
      const auto [expression, hint] = pair_in(dim, key);
      out.emplace_back(std::string(value_as<std::string_view>(expression, key)),
                       value_as<std::int64_t>(hint, key));
    } else {
      out.emplace_back(value_as<std::int64_t>(dim, key));
    }
    // -1 is the value of a symbolic dimension without a hint.
    const bool given = out.back().value >= 0 || (!out.back().known() && out.back().value == -1);
    if (!given || (dim.is_array() && out.back().known()) || out.size() > limits::kDims)
      throw Error(fmt::format("'{}' are not those of a tensor", key));
  }
  return out;
}

}  // namespace

void append_type(std::string& out, const TensorType& type) {
  auto dims = [&](const std::vector<Dim>& all) {
    JsonList list(out, '[', ']');
    for (const Dim& dim : all) {
      if (dim.known())
        list.next() += std::to_string(dim.value);
      else
        list.next() += fmt::format("[{}, {}]", json_quoted(dim.expr), dim.value);
    }
  };
  JsonList fields(out, '{', '}');
  fields.key("dtype") += std::to_string(static_cast<int>(type.dtype));
  fields.key("sizes");
  dims(type.sizes);
  fields.key("strides");
  dims(type.strides);
  append_json(fields.key("device"), type.device.str());
  fields.key("layout") += std::to_string(static_cast<int>(type.layout));
  fields.key("requires_grad") += type.requires_grad ? "true" : "false";
}

TensorType read_type(const dom::element& item) {
  TensorType type;
  type.dtype = read_dtype(get_in<dom::element>(item, "dtype"));
  type.sizes = dims(item, "sizes");
  type.strides = dims(item, "strides");
  if (!type.strides.empty() && type.strides.size() != type.sizes.size())
    throw Error(fmt::format("{} sizes but {} strides", type.sizes.size(), type.strides.size()));
  type.device = read_device(get_in<dom::element>(item, "device"));
  type.layout = read_layout(get_in<dom::element>(item, "layout"));
  type.requires_grad = get_in<bool>(item, "requires_grad");
  return type;
}

}  // namespace refx
