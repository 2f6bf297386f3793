// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "refx/progress.h"

namespace refx::cli {

// Shows progress as one line on stderr, which is removed at the end. If stderr is not a terminal,
// prints a line every 30 seconds instead. Prints nothing with --quiet.
class Progress {
 public:
  explicit Progress(std::size_t parts);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Begins the next part.
  void next(std::string_view what);

  // Removes the line.
  void clear();

  // For long operations of the library: shows their progress, and ends them after Ctrl-C.
  OnProgress callback();

 private:
  void show(std::size_t done, std::string_view what);

  void log(std::size_t done, std::string_view what);
  std::string position(std::size_t done, std::string_view what) const;

  std::size_t parts_, part_ = 0;
  bool is_line_;  // shown as one line that is overwritten
  std::chrono::steady_clock::time_point logged_ = std::chrono::steady_clock::now();
};

}  // namespace refx::cli
