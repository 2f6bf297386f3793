// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace refx::cli {

// Parses the command line and runs the command; returns the exit code. Wrong usage is an Error.
int run_command_line(int argc, char** argv);

}  // namespace refx::cli
