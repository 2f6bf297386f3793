// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// The parts of the zip format that reading and writing share.
namespace refx::zip {

inline constexpr std::uint32_t kLocalHeader = 0x04034b50;
inline constexpr std::uint32_t kDescriptor = 0x08074b50;
inline constexpr std::uint32_t kEntry = 0x02014b50;
inline constexpr std::uint32_t kEnd = 0x06054b50;
inline constexpr std::uint32_t kEnd64 = 0x06064b50;
inline constexpr std::uint32_t kLocator64 = 0x07064b50;

inline constexpr std::uint64_t kLocalHeaderSize = 30;
inline constexpr std::uint64_t kEntrySize = 46;
inline constexpr std::uint64_t kEndSize = 22;
inline constexpr std::uint64_t kEnd64Size = 56;
inline constexpr std::uint64_t kLocator64Size = 20;

inline constexpr std::uint16_t kSizes64 = 1;  // extra field with 64-bit sizes and offset
inline constexpr std::uint16_t kMax16 = 0xffff;
inline constexpr std::uint32_t kMax32 = 0xffffffff;

inline constexpr std::uint16_t kHasDescriptor = 1 << 3;
inline constexpr std::uint16_t kUtf8 = 1 << 11;
inline constexpr std::uint32_t kFolderAttribute = 0x10;

// Little-endian integers, whatever the machine's order and their alignment.
template <typename Int>
Int load(const char* bytes) {
  Int value = 0;
  for (unsigned i = 0; i < sizeof(Int); ++i)
    value |= static_cast<Int>(static_cast<Int>(static_cast<unsigned char>(bytes[i])) << 8 * i);
  return value;
}

template <typename Int>
void store(std::string& out, Int value) {
  for (unsigned i = 0; i < sizeof(Int); ++i) out += static_cast<char>(value >> 8 * i & 0xff);
}

// What is wrong with a record's name, or nothing. Anything but plain relative paths is refused, so
// that no name can be mistaken for another, or for a place outside of the archive.
std::string_view name_fault(std::string_view name);

}  // namespace refx::zip
