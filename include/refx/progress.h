// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace refx {

// Told from time to time how far a long work is; what it throws ends the work, and nothing is
// changed then.
struct Progress {
  std::size_t done = 0, total = 0;
  std::string what;  // what is being done now
};
using OnProgress = std::function<void(const Progress&)>;

}  // namespace refx
