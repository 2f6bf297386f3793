// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "refx/progress.h"

namespace refx::cli {

// One line on stderr that says what is being done, gone afterwards; where that is no terminal, a
// line now and then while it takes long. Not with --quiet.
class Progress {
 public:
  explicit Progress(std::size_t parts);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // The next part begins.
  void next(std::string_view what);

  // Takes the line away.
  void clear();

  // For long work in the library: shows how far it is, and ends it after Ctrl-C.
  OnProgress callback();

 private:
  void show(std::size_t done, std::string_view what);

  void log(std::size_t done, std::string_view what);
  std::string how_far(std::size_t done, std::string_view what) const;

  std::size_t parts_, part_ = 0;
  bool shown_;  // as one line
  std::chrono::steady_clock::time_point said_ = std::chrono::steady_clock::now();
};

}  // namespace refx::cli
