// SPDX-License-Identifier: Apache-2.0

#include "pt2/safetensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <system_error>

#include "pt2/dom_json.h"
#include "util/first_line.h"
#include "util/limits.h"
#include "util/regular_file.h"
#include "util/strict_json.h"

namespace refx {

namespace {

constexpr std::size_t kLengthBytes = 8;

std::optional<c10::ScalarType> dtype_of(std::string_view name) {
  constexpr std::pair<std::string_view, c10::ScalarType> kDtypes[] = {
      {"BOOL", at::kBool},           {"U8", at::kByte},          {"I8", at::kChar},
      {"I16", at::kShort},           {"U16", at::kUInt16},       {"F16", at::kHalf},
      {"BF16", at::kBFloat16},       {"I32", at::kInt},          {"U32", at::kUInt32},
      {"F32", at::kFloat},           {"I64", at::kLong},         {"U64", at::kUInt64},
      {"F64", at::kDouble},          {"C64", at::kComplexFloat}, {"F8_E4M3", at::kFloat8_e4m3fn},
      {"F8_E5M2", at::kFloat8_e5m2},
  };
  for (const auto& [known, dtype] : kDtypes)
    if (known == name) return dtype;
  return std::nullopt;
}

Safetensors::TensorEntry read_entry(const dom::element& item, std::uint64_t data,
                                    std::uint64_t bytes) {
  Safetensors::TensorEntry entry;
  entry.dtype = text_in(item, "dtype");
  const auto dtype = dtype_of(entry.dtype);
  // Torch refuses sizes whose product overflows, even where one of them is zero.
  std::int64_t extent = dtype ? static_cast<std::int64_t>(c10::elementSize(*dtype)) : 1;
  bool empty = false;
  for (const dom::element& dim : get_in<dom::array>(item, "shape")) {
    const auto size = entry.sizes.emplace_back(value_as<std::int64_t>(dim, "shape"));
    empty = empty || size == 0;
    if (size < 0 || entry.sizes.size() > limits::kDims ||
        __builtin_mul_overflow(extent, std::max<std::int64_t>(size, 1), &extent))
      throw Error("its shape is not that of a tensor");
  }
  const std::uint64_t size = empty ? 0 : static_cast<std::uint64_t>(extent);
  const auto [begin, end] = pair_in(get_in<dom::element>(item, "data_offsets"), "data_offsets");
  const auto from = value_as<std::uint64_t>(begin, "data_offsets");
  const auto to = value_as<std::uint64_t>(end, "data_offsets");
  if (from > to || to > bytes) throw Error("its data_offsets are not inside the file");
  if (dtype && to - from != size) throw Error("its data_offsets do not fit its shape");
  entry.begin = data + from;
  entry.end = data + to;
  return entry;
}

}  // namespace

Safetensors::Safetensors(const std::string& path)
    : path_(path), file_(new int(open_regular(path)), [](const int* file) {
        close(*file);
        delete file;
      }) {
  struct stat status;
  if (fstat(*file_, &status) != 0)
    throw Error(
        fmt::format("{}: cannot be read ({})", path, std::generic_category().message(errno)));
  const auto of_file = static_cast<std::uint64_t>(status.st_size);
  std::array<unsigned char, kLengthBytes> length = {};
  if (of_file >= kLengthBytes) read_bytes(0, reinterpret_cast<char*>(length.data()), kLengthBytes);
  std::uint64_t size = 0;
  for (auto byte = length.rbegin(); byte != length.rend(); ++byte) size = size << 8 | *byte;
  if (of_file < kLengthBytes || size > std::min(of_file - kLengthBytes, limits::kTensorHeader))
    throw Error(fmt::format("{}: it is no .safetensors file: its header has no end", path));
  try {
    read_header(size, of_file);
  } catch (const simdjson::simdjson_error& error) {
    throw Error(fmt::format("{}: its header: {}", path, error.what()));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: its header: {}", path, error.what()));
  }
}

void Safetensors::read_header(std::uint64_t size, std::uint64_t of_file) {
  std::string text(size + simdjson::SIMDJSON_PADDING, ' ');
  read_bytes(kLengthBytes, text.data(), size);
  dom::parser parser;
  const dom::element root = parse_strict(parser, std::string_view(text).substr(0, size));
  const std::uint64_t data = kLengthBytes + size;
  for (const auto& [name, item] : value_as<dom::object>(root, "the header")) {
    if (name == "__metadata__") continue;
    try {
      entries_.emplace(name, read_entry(item, data, of_file - data));
    } catch (const Error& error) {
      throw Error(fmt::format("'{}': {}", name, error.what()));
    }
  }
}

void Safetensors::read_bytes(std::uint64_t from, char* to, std::size_t size) const {
  while (size > 0) {
    const ssize_t got = pread(*file_, to, size, static_cast<off_t>(from));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw Error(fmt::format("{}: cannot be read ({})", path_,
                              got < 0 ? std::generic_category().message(errno) : "it was cut off"));
    from += static_cast<std::uint64_t>(got);
    to += got;
    size -= static_cast<std::size_t>(got);
  }
}

at::TensorBase Safetensors::read(const std::string& name) const {
  const TensorEntry& entry = entries_.at(name);
  const auto dtype = dtype_of(entry.dtype);
  if (!dtype)
    throw Error(fmt::format("{}: '{}' is of {}, which torch has not", path_, name, entry.dtype));
  const c10::InferenceMode ordinary_tensors(false);
  at::Tensor tensor;
  try {
    tensor = at::empty(entry.sizes, at::dtype(*dtype));
  } catch (const c10::Error& error) {  // too large for this machine
    throw Error(
        fmt::format("{}: '{}': {}", path_, name, first_line(error.what_without_backtrace())));
  }
  read_bytes(entry.begin, static_cast<char*>(tensor.mutable_data_ptr()), entry.end - entry.begin);
  return tensor;
}

}  // namespace refx
