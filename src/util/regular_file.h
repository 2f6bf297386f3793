// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace refx {

// A descriptor for reading. Throws Error if the path cannot be opened or is no regular file: a pipe
// would wait for someone to write to it, and a device need not end.
int open_regular(const std::string& path);

}  // namespace refx
