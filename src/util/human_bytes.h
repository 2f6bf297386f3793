// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace refx {

// "0 bytes", "812 bytes", "1.5 kB", "438 MB".
std::string human_bytes(std::uint64_t bytes);

}  // namespace refx
