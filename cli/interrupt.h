// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace refx::cli {

// After Ctrl-C, a long operation ends at its next progress report, so that it can remove its
// temporary files. A second Ctrl-C ends the program at once.
void catch_interrupt();
bool interrupted();

// Reading a mapped file that was truncated meanwhile raises SIGBUS. Then the program ends with a
// message. Its output file does not exist yet, because a save renames it at the end.
void catch_bus_error();

struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

}  // namespace refx::cli
