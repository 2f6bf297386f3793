// SPDX-License-Identifier: Apache-2.0

#include "book/enum_names.h"

#include <array>
#include <functional>

#include "refx/error.h"

namespace refx {

namespace {

// In the order of c10::ScalarType.
constexpr std::array kDtypes = std::to_array<DtypeNames>({
    {"u8", "uint8"},
    {"i8", "int8"},
    {"i16", "int16"},
    {"i32", "int32"},
    {"i64", "int64"},
    {"f16", "float16"},
    {"f32", "float32"},
    {"f64", "float64"},
    {"c32", "complex32"},
    {"c64", "complex64"},
    {"c128", "complex128"},
    {"b8", "bool"},
    {"qint8", "qint8"},
    {"quint8", "quint8"},
    {"qint32", "qint32"},
    {"bf16", "bfloat16"},
    {"quint4x2", "quint4x2"},
    {"quint2x4", "quint2x4"},
    {"b1x8", "bits1x8"},
    {"b2x4", "bits2x4"},
    {"b4x2", "bits4x2"},
    {"b8x1", "bits8"},
    {"b16x1", "bits16"},
    {"f8e5m2", "float8_e5m2"},
    {"f8e4m3fn", "float8_e4m3fn"},
    {"f8e5m2fnuz", "float8_e5m2fnuz"},
    {"f8e4m3fnuz", "float8_e4m3fnuz"},
    {"u16", "uint16"},
    {"u32", "uint32"},
    {"u64", "uint64"},
    {"uint1", "uint1"},
    {"uint2", "uint2"},
    {"uint3", "uint3"},
    {"uint4", "uint4"},
    {"uint5", "uint5"},
    {"uint6", "uint6"},
    {"uint7", "uint7"},
    {"int1", "int1"},
    {"int2", "int2"},
    {"int3", "int3"},
    {"int4", "int4"},
    {"int5", "int5"},
    {"int6", "int6"},
    {"int7", "int7"},
    {"f8e8m0fnu", "float8_e8m0fnu"},
    {"f4e2m1fnx2", "float4_e2m1fn_x2"},
    {"undefined", "undefined"},
});
static_assert(kDtypes.size() == c10::NumScalarTypes, "torch has a dtype that has no name here");
static_assert(kDtypes[static_cast<std::size_t>(c10::ScalarType::UInt64)].brief == "u64");

// In the order of c10::Layout and c10::MemoryFormat.
constexpr std::array<std::string_view, 8> kLayouts = {"strided",    "sparse_coo", "sparse_csr",
                                                      "_mkldnn",    "sparse_csc", "sparse_bsr",
                                                      "sparse_bsc", "jagged"};
constexpr std::array<std::string_view, 4> kFormats = {"contiguous_format", "preserve_format",
                                                      "channels_last", "channels_last_3d"};
static_assert(kLayouts.size() == static_cast<std::size_t>(c10::Layout::NumOptions));
static_assert(kFormats.size() == static_cast<std::size_t>(c10::MemoryFormat::NumOptions));

template <class Names, class Enum>
const auto& at(const Names& names, Enum value) {
  const auto index = static_cast<std::size_t>(value);
  if (index >= names.size())
    throw Error("no name for value " + std::to_string(index) + " of an enumeration of torch");
  return names[index];
}

template <class Enum, class Names, class Name = std::identity>
std::optional<Enum> find(const Names& names, std::string_view wanted, Name name = {}) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (std::invoke(name, names[i]) == wanted) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace

DtypeNames names_of(c10::ScalarType dtype) { return at(kDtypes, dtype); }
std::string_view name_of(c10::Layout layout) { return at(kLayouts, layout); }
std::string_view name_of(c10::MemoryFormat format) { return at(kFormats, format); }
std::string name_of(c10::DeviceType type) { return c10::DeviceTypeName(type, true); }

std::optional<c10::ScalarType> find_brief_dtype(std::string_view brief) {
  return find<c10::ScalarType>(kDtypes, brief, &DtypeNames::brief);
}
std::optional<c10::ScalarType> find_dtype(std::string_view full) {
  return find<c10::ScalarType>(kDtypes, full, &DtypeNames::full);
}
std::optional<c10::Layout> find_layout(std::string_view name) {
  return find<c10::Layout>(kLayouts, name);
}
std::optional<c10::MemoryFormat> find_memory_format(std::string_view name) {
  return find<c10::MemoryFormat>(kFormats, name);
}
std::optional<c10::DeviceType> find_device_type(std::string_view name) {
  return find<c10::DeviceType>(device_type_names(), name);
}

std::vector<std::string> brief_dtype_names() {
  std::vector<std::string> names;
  for (const DtypeNames& dtype : kDtypes) names.emplace_back(dtype.brief);
  return names;
}

std::vector<std::string> layout_names() { return {kLayouts.begin(), kLayouts.end()}; }

std::vector<std::string> torch_constant_names() {
  std::vector<std::string> names = layout_names();
  names.insert(names.end(), kFormats.begin(), kFormats.end());
  for (const DtypeNames& dtype : kDtypes) names.emplace_back(dtype.full);
  return names;
}

std::vector<std::string> device_type_names() {
  std::vector<std::string> names;
  for (int type = 0; type < c10::COMPILE_TIME_MAX_DEVICE_TYPES; ++type)
    names.push_back(name_of(static_cast<c10::DeviceType>(type)));
  return names;
}

}  // namespace refx
