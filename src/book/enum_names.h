// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refx {

// The names of torch's enumerations, without "torch.".
struct DtypeNames {
  std::string_view brief;  // "f32", as torch.export prints it
  std::string_view full;   // "float32"
};
DtypeNames names_of(c10::ScalarType dtype);
std::string_view name_of(c10::Layout layout);
std::string_view name_of(c10::MemoryFormat format);
std::string name_of(c10::DeviceType type);  // "cuda"

std::optional<c10::ScalarType> find_brief_dtype(std::string_view brief);
std::optional<c10::ScalarType> find_dtype(std::string_view full);
std::optional<c10::Layout> find_layout(std::string_view name);
std::optional<c10::MemoryFormat> find_memory_format(std::string_view name);
std::optional<c10::DeviceType> find_device_type(std::string_view name);

// For suggestions.
std::vector<std::string> brief_dtype_names();
std::vector<std::string> layout_names();
std::vector<std::string> torch_constant_names();  // dtypes, layouts, memory formats
std::vector<std::string> device_type_names();

}  // namespace refx
