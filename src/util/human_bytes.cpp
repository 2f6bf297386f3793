// SPDX-License-Identifier: Apache-2.0

#include "util/human_bytes.h"

#include <fmt/format.h>

#include <array>

namespace refx {

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
  constexpr std::array units = {"kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < units.size(); ++unit) value /= 1000;
  return value < 9.95 ? fmt::format("{:.1f} {}", value, units[unit])
                      : fmt::format("{:.0f} {}", value, units[unit]);
}

}  // namespace refx
