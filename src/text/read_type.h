// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "refx/type.h"
#include "text/cursor.h"

namespace refx {

// "f32[s0{2}, 4]": dtype and sizes.
TensorType read_type(Cursor& cursor);
// The value of "strides=", "device=", "layout=" or "requires_grad="; false for any other key.
bool read_type_attribute(Cursor& cursor, const std::string& key, TensorType& type);
// The device of that name; throws Error at `at`.
c10::DeviceType device_type(const Cursor& cursor, std::size_t at, const std::string& name);
c10::Device read_device_index(Cursor& cursor, c10::DeviceType type);

// A key that none of the readers knows.
[[noreturn]] void unknown_attribute(const Cursor& cursor, std::size_t at, const std::string& key,
                                    const std::vector<std::string>& known);

}  // namespace refx
