// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>

namespace refx {

// The numbers that torch.export's schema has for these, which are not those of c10. Nothing for a
// number or a value that the schema does not know.
std::optional<c10::ScalarType> scalar_type_of(std::int64_t number);
std::optional<c10::Layout> layout_of(std::int64_t number);
std::optional<c10::MemoryFormat> memory_format_of(std::int64_t number);
std::optional<std::int64_t> number_of(c10::ScalarType type);
std::optional<std::int64_t> number_of(c10::Layout layout);
std::optional<std::int64_t> number_of(c10::MemoryFormat format);

// The schema's major version that refx reads and writes.
constexpr std::int64_t kSchemaMajor = 8;

}  // namespace refx
