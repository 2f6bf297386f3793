// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "archive/files.h"

namespace refx::fuzz {

using testing::read_file;
using testing::write_file;

// A folder for this process; scripts/fuzz.sh places it in memory.
inline const testing::Folder& scratch() {
  static const testing::Folder folder;
  return folder;
}

// Writes the bytes to a file in it and returns its path.
inline std::string put(std::string_view name, std::string_view bytes) {
  std::string path = scratch() / name;
  write_file(path, bytes);
  return path;
}

}  // namespace refx::fuzz
