#pragma once

#include <stdexcept>

namespace refx::cli {

// After Ctrl-C, long work ends at its next step, so that it can tidy up; a second one ends the
// program at once.
void catch_interrupt();
bool interrupted();

struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

}  // namespace refx::cli
