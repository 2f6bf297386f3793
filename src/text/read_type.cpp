// SPDX-License-Identifier: Apache-2.0

#include "text/read_type.h"

#include <algorithm>
#include <limits>

#include "book/enum_names.h"
#include "text/spelling.h"
#include "util/did_you_mean.h"

namespace refx {

namespace {

bool is_integer(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Dim read_dim(Cursor& cursor) {
  const std::size_t at = cursor.position();
  std::string expr;
  if (cursor.peek_quote()) {
    expr = cursor.string();
    if (expr.empty()) cursor.fail(at, "an empty expression");
  } else {
    Cursor ahead = cursor;
    const std::string_view bare = ahead.bare_expr();
    if (is_integer(bare)) return cursor.integer();
    if (!is_plain_expr(bare)) cursor.fail_expected("a size such as 4 or 2*s0");
    expr = bare;
    cursor = ahead;
  }
  if (!cursor.peek('{')) return Dim(expr, -1);
  std::int64_t hint = -1;
  cursor.between('{', '}', [&] { hint = cursor.integer(); });
  return Dim(expr, hint);
}

std::vector<Dim> read_dims(Cursor& cursor, char open, char close) {
  std::vector<Dim> dims;
  cursor.sequence(open, close, [&] { dims.push_back(read_dim(cursor)); });
  return dims;
}

c10::Layout read_layout(Cursor& cursor) {
  const std::size_t at = cursor.position();
  const std::string name = cursor.name("a layout");
  if (const auto layout = find_layout(name)) return *layout;
  cursor.fail(at, "no layout is called " + shown(name) + did_you_mean(name, layout_names()));
}

c10::Device read_device(Cursor& cursor) {
  const std::size_t at = cursor.position();
  const c10::DeviceType type = device_type(cursor, at, cursor.name("a device"));
  return cursor.accept(':') ? read_device_index(cursor, type) : c10::Device(type);
}

}  // namespace

TensorType read_type(Cursor& cursor) {
  TensorType type;
  const std::size_t at = cursor.position();
  const std::string name = cursor.name("a dtype such as f32");
  const auto dtype = find_brief_dtype(name);
  if (!dtype)
    cursor.fail(at, "no dtype is called " + shown(name) + did_you_mean(name, brief_dtype_names()));
  type.dtype = *dtype;
  type.sizes = read_dims(cursor, '[', ']');
  return type;
}

bool read_type_attribute(Cursor& cursor, const std::string& key, TensorType& type) {
  if (key == "strides")
    type.strides = read_dims(cursor, '(', ')');
  else if (key == "device")
    type.device = read_device(cursor);
  else if (key == "layout")
    type.layout = read_layout(cursor);
  else if (key == "requires_grad")
    type.requires_grad = cursor.boolean();
  else
    return false;
  return true;
}

c10::DeviceType device_type(const Cursor& cursor, std::size_t at, const std::string& name) {
  if (const auto type = find_device_type(name)) return *type;
  cursor.fail(at, "no device is called " + shown(name) + did_you_mean(name, device_type_names()));
}

c10::Device read_device_index(Cursor& cursor, c10::DeviceType type) {
  const std::size_t at = cursor.position();
  const std::int64_t index = cursor.integer();
  const std::int64_t last = type == c10::kCPU ? 0 : std::numeric_limits<c10::DeviceIndex>::max();
  if (index < 0 || index > last)
    cursor.fail(at, "the index of a device must be between 0 and " + std::to_string(last));
  return c10::Device(type, static_cast<c10::DeviceIndex>(index));
}

void unknown_attribute(const Cursor& cursor, std::size_t at, const std::string& key,
                       const std::vector<std::string>& known) {
  cursor.fail(at, "there is no attribute " + shown(key) + " here" + did_you_mean(key, known));
}

}  // namespace refx
