// SPDX-License-Identifier: Apache-2.0

#include "archive/checksum.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include "archive/archive.h"
#include "refx/error.h"

namespace refx {

std::uint32_t crc32(std::uint32_t crc, const char* bytes, std::size_t size) {
  return libdeflate_crc32(crc, bytes, size);
}

void fail_damaged(const std::string& path, const Record& record, std::uint32_t found) {
  throw Error(
      fmt::format("{}: record '{}' is damaged (CRC-32 is {:08x}, should be {:08x}); get a fresh "
                  "copy of the file",
                  path, record.name, found, record.crc));
}

}  // namespace refx
