// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace refx {

// Called periodically with the progress of a long operation. An exception from the callback ends
// the operation, which then changes nothing.
struct Progress {
  std::size_t done = 0, total = 0;
  std::string what;  // the current activity
};
using OnProgress = std::function<void(const Progress&)>;

}  // namespace refx
