#pragma once

#include <cstddef>
#include <string_view>

#include "refx/progress.h"

namespace refx::cli {

// One line on stderr that says what is being done; only on a terminal, not with --quiet, and gone
// afterwards.
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

  std::size_t parts_, part_ = 0;
  bool shown_;
};

}  // namespace refx::cli
