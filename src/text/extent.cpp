// SPDX-License-Identifier: Apache-2.0

#include "text/extent.h"

#include <algorithm>

namespace refx {

namespace {

bool multiply(std::int64_t& a, std::int64_t b) { return !__builtin_mul_overflow(a, b, &a); }
bool add(std::int64_t& a, std::int64_t b) { return !__builtin_add_overflow(a, b, &a); }

}  // namespace

std::optional<std::vector<std::int64_t>> checked_contiguous_strides(c10::IntArrayRef sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    if (!multiply(stride, std::max<std::int64_t>(sizes[i], 1))) return std::nullopt;
  }
  return strides;
}

std::optional<std::int64_t> bytes_needed(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                                         std::int64_t offset, std::int64_t item_bytes) {
  std::int64_t elements = offset;
  if (!add(elements, 1)) return std::nullopt;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    std::int64_t span = sizes[i] - 1;
    if (!multiply(span, strides[i]) || !add(elements, span)) return std::nullopt;
  }
  if (!multiply(elements, item_bytes)) return std::nullopt;
  return elements;
}

}  // namespace refx
