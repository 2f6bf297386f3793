// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace refx {

// What a strided tensor takes up. Nothing if a number overflows: then there is no such tensor.
std::optional<std::vector<std::int64_t>> checked_contiguous_strides(c10::IntArrayRef sizes);
std::optional<std::int64_t> bytes_needed(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                                         std::int64_t offset, std::int64_t item_bytes);

}  // namespace refx
