// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace refx {

// Opens a file for reading and returns the descriptor. Throws Error if the path cannot be opened or
// is not a regular file: reading a pipe would wait for a writer, and a device may be endless.
int open_regular(const std::string& path);

}  // namespace refx
