// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace refx {

struct Record;

// CRC-32 of bytes that follow those which gave `crc`.
std::uint32_t crc32(std::uint32_t crc, const char* bytes, std::size_t size);

// Throws Error that names the file and the record.
[[noreturn]] void fail_damaged(const std::string& path, const Record& record, std::uint32_t found);

}  // namespace refx
