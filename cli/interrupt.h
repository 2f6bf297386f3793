// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace refx::cli {

// After Ctrl-C, long work ends at its next step, so that it can tidy up; a second one ends the
// program at once.
void catch_interrupt();
bool interrupted();

// A file that is cut off while it is mapped gives a signal instead of bytes. Then the program ends
// with a message; a file that it was writing has no name yet.
void catch_cut_off();

struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

}  // namespace refx::cli
