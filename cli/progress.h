#pragma once

#include <cstddef>
#include <string_view>

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

 private:
  std::size_t parts_, part_ = 0;
  bool shown_;
};

}  // namespace refx::cli
