// SPDX-License-Identifier: Apache-2.0

#include "graph_json/tensor_meta.h"

#include <fmt/format.h>

#include <new>

#include "graph_json/json.h"
#include "graph_json/schema.h"
#include "refx/error.h"
#include "util/limits.h"

namespace refx {

namespace {

Dim read_dim(JsonDocument& document, ondemand::object object, Symbols& symbols) {
  Dim dim;
  bool found = false;
  for (auto field : object) {
    const std::string_view key = field.unescaped_key();
    ondemand::value value = field.value();
    const Trail::Step step(document.trail, "as_expr");
    if (found) document.fail("a size has two kinds");
    found = true;
    if (key == "as_int") {
      dim = Dim(value.get_int64().value());
    } else if (key == "as_expr") {
      ondemand::object expr = value.get_object();
      std::string text = read_expression(document, expr, symbols);
      std::int64_t hint = -1;
      if (auto stored = find_field(expr, "hint"); stored && !stored->is_null()) {
        ondemand::object kind = stored->get_object();
        if (auto number = find_field(kind, "as_int")) hint = number->get_int64();
      }
      dim = Dim(text, hint);
    } else {
      document.fail(fmt::format("a size of unknown kind '{}'", key));
    }
  }
  if (!found) document.fail("a size without a value");
  return dim;
}

std::vector<Dim> read_dims(JsonDocument& document, ondemand::array array, Symbols& symbols) {
  std::vector<Dim> dims;
  for (ondemand::value item : array) {
    const Trail::Step step(document.trail, dims.size());
    if (dims.size() == limits::kTensorSizes)
      document.fail(fmt::format("a tensor of more than {} dimensions", limits::kTensorSizes));
    dims.push_back(read_dim(document, item.get_object(), symbols));
  }
  return dims;
}

void append_dim(std::string& out, const Dim& dim, const Symbols& symbols) {
  if (dim.known()) {
    fmt::format_to(std::back_inserter(out), "{{\"as_int\": {}}}", dim.value);
    return;
  }
  out += "{\"as_expr\": {\"expr_str\": ";
  append_json(out, symbols.stored(dim.expr));
  if (dim.value >= 0)
    fmt::format_to(std::back_inserter(out), ", \"hint\": {{\"as_int\": {}}}}}}}", dim.value);
  else
    out += ", \"hint\": null}}";
}

void append_dims(std::string& out, const std::vector<Dim>& dims, const Symbols& symbols) {
  JsonList list(out, '[', ']');
  for (const Dim& dim : dims) append_dim(list.next(), dim, symbols);
}

}  // namespace

std::string read_expression(JsonDocument& document, ondemand::object expr, Symbols& symbols) {
  try {
    return symbols.readable(std::string(expr["expr_str"].get_string().value()));
  } catch (const Error& error) {
    document.fail(error.what());
  }
}

TensorMeta read_tensor_meta(JsonDocument& document, ondemand::object object, Symbols& symbols) {
  TensorMeta meta;
  for (auto field : object) {
    const std::string_view key = field.unescaped_key();
    ondemand::value value = field.value();
    const Trail::Step step(document.trail, key);
    if (key == "dtype") {
      const std::int64_t number = value.get_int64();
      const auto dtype = scalar_type_of(number);
      if (!dtype) document.fail(fmt::format("unknown dtype {}", number));
      meta.type.dtype = *dtype;
    } else if (key == "sizes") {
      meta.type.sizes = read_dims(document, value.get_array(), symbols);
      for (const Dim& size : meta.type.sizes)
        if (size.known() && size.value < 0) document.fail(fmt::format("a size of {}", size.value));
    } else if (key == "requires_grad") {
      meta.type.requires_grad = value.get_bool();
    } else if (key == "device") {
      ondemand::object device = value.get_object();
      std::string name(device["type"].get_string().value());
      if (auto index = find_field(device, "index"); index && !index->is_null())
        name += fmt::format(":{}", index->get_int64().value());
      try {
        meta.type.device = c10::Device(name);
      } catch (const std::bad_alloc&) {
        throw;
      } catch (const std::exception&) {
        document.fail(fmt::format("unknown device '{}'", name));
      }
    } else if (key == "strides") {
      meta.strides = read_dims(document, value.get_array(), symbols);
    } else if (key == "storage_offset") {
      meta.offset = read_dim(document, value.get_object(), symbols);
    } else if (key == "layout") {
      const std::int64_t number = value.get_int64();
      const auto layout = layout_of(number);
      if (!layout) document.fail(fmt::format("unknown layout {}", number));
      meta.type.layout = *layout;
    }
  }
  const bool differentiable =
      c10::isFloatingType(meta.type.dtype) || c10::isComplexType(meta.type.dtype);
  if (meta.type.requires_grad && !differentiable)
    document.fail(fmt::format("requires_grad on a tensor of {}", c10::toString(meta.type.dtype)));
  if (meta.type.layout == c10::kStrided) {
    if (meta.strides.size() != meta.type.sizes.size())
      document.fail(
          fmt::format("{} sizes but {} strides", meta.type.sizes.size(), meta.strides.size()));
    if (meta.strides != contiguous_strides(meta.type.sizes)) meta.type.strides = meta.strides;
  }
  return meta;
}

void append_tensor_meta(std::string& out, const TensorType& type, const Symbols& symbols,
                        std::int64_t offset) {
  const auto dtype = number_of(type.dtype);
  if (!dtype)
    throw Error(fmt::format("torch.export cannot store {} tensors", c10::toString(type.dtype)));
  fmt::format_to(std::back_inserter(out), "{{\"dtype\": {}, \"sizes\": ", *dtype);
  append_dims(out, type.sizes, symbols);
  fmt::format_to(std::back_inserter(out),
                 ", \"requires_grad\": {}, \"device\": {{\"type\": \"{}\", \"index\": ",
                 type.requires_grad, c10::DeviceTypeName(type.device.type(), true));
  out += type.device.has_index() ? std::to_string(type.device.index()) : "null";
  out += "}, \"strides\": ";
  append_dims(out, strides_of(type), symbols);
  fmt::format_to(std::back_inserter(out),
                 ", \"storage_offset\": {{\"as_int\": {}}}, \"layout\": {}}}", offset,
                 number_of(type.layout).value_or(7));
}

}  // namespace refx
