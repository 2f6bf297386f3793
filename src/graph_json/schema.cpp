// SPDX-License-Identifier: Apache-2.0

#include "graph_json/schema.h"

#include <array>
#include <utility>

namespace refx {

namespace {

using c10::Layout;
using c10::MemoryFormat;
using c10::ScalarType;

template <class T, std::size_t N>
using Numbers = std::array<std::pair<std::int64_t, T>, N>;

constexpr Numbers<ScalarType, 21> kScalarTypes{{
    {1, ScalarType::Byte},
    {2, ScalarType::Char},
    {3, ScalarType::Short},
    {4, ScalarType::Int},
    {5, ScalarType::Long},
    {6, ScalarType::Half},
    {7, ScalarType::Float},
    {8, ScalarType::Double},
    {9, ScalarType::ComplexHalf},
    {10, ScalarType::ComplexFloat},
    {11, ScalarType::ComplexDouble},
    {12, ScalarType::Bool},
    {13, ScalarType::BFloat16},
    {28, ScalarType::UInt16},
    {29, ScalarType::Float8_e4m3fn},
    {30, ScalarType::Float8_e5m2},
    {31, ScalarType::Float8_e4m3fnuz},
    {32, ScalarType::Float8_e5m2fnuz},
    {33, ScalarType::Float8_e8m0fnu},
    {34, ScalarType::UInt32},
    {35, ScalarType::UInt64},
}};

constexpr Numbers<Layout, 7> kLayouts{{
    {1, Layout::Sparse},
    {2, Layout::SparseCsr},
    {3, Layout::SparseCsc},
    {4, Layout::SparseBsr},
    {5, Layout::SparseBsc},
    {6, Layout::Mkldnn},
    {7, Layout::Strided},
}};

constexpr Numbers<MemoryFormat, 4> kMemoryFormats{{
    {1, MemoryFormat::Contiguous},
    {2, MemoryFormat::ChannelsLast},
    {3, MemoryFormat::ChannelsLast3d},
    {4, MemoryFormat::Preserve},
}};

template <class T, std::size_t N>
std::optional<T> value_in(const Numbers<T, N>& table, std::int64_t number) {
  for (const auto& [n, value] : table)
    if (n == number) return value;
  return std::nullopt;
}

template <class T, std::size_t N>
std::optional<std::int64_t> number_in(const Numbers<T, N>& table, T value) {
  for (const auto& [n, v] : table)
    if (v == value) return n;
  return std::nullopt;
}

}  // namespace

std::optional<ScalarType> scalar_type_of(std::int64_t n) { return value_in(kScalarTypes, n); }
std::optional<Layout> layout_of(std::int64_t n) { return value_in(kLayouts, n); }
std::optional<MemoryFormat> memory_format_of(std::int64_t n) { return value_in(kMemoryFormats, n); }
std::optional<std::int64_t> number_of(ScalarType type) { return number_in(kScalarTypes, type); }
std::optional<std::int64_t> number_of(Layout layout) { return number_in(kLayouts, layout); }
std::optional<std::int64_t> number_of(MemoryFormat f) { return number_in(kMemoryFormats, f); }

}  // namespace refx
