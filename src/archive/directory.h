// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace refx {

// The directory of a zip archive, read and checked.

struct DirectoryEntry {
  std::string_view name;  // with the root folder
  std::uint64_t header = 0;
  std::uint64_t data = 0;
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
  bool has_descriptor = false;  // behind the data
};

// What a zip's directory says, checked against the header before each entry's data: plain names,
// nothing compressed or encrypted, one entry behind the other from the first byte to the directory,
// and no comments: nothing in which another reader could find another archive.
// In the order of their data. Throws Error that begins with `path`. Takes time and memory in
// proportion to the directory that is there, not to what it claims.
std::vector<DirectoryEntry> read_directory(const std::string& path, std::string_view file);

}  // namespace refx
