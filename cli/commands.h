#pragma once

namespace refx::cli {

// What the program returns to the shell.
enum Exit : int {
  kDone = 0,
  kNo = 1,     // the answer is no
  kUsage = 2,  // wrong usage or bad input; nothing was written
  kBug = 3,    // a fault of refx itself
};

// One file per command: cmd_<name>.cpp. main.cpp fills the options in and maps errors to exit
// codes.
struct ListOptions {
  bool json = false;
};
int list(const ListOptions& options);

int demo();

}  // namespace refx::cli
