// SPDX-License-Identifier: Apache-2.0

#include "interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <csignal>
#include <string_view>

#include "commands.h"

namespace refx::cli {

namespace {

volatile std::sig_atomic_t seen = 0;

extern "C" void on_interrupt(int) {
  seen = 1;
  std::signal(SIGINT, SIG_DFL);  // the next one ends the program
}

extern "C" void on_bus_error(int signal, siginfo_t* info, void*) {
  if (info->si_code !=
      BUS_ADRERR) {  // not a truncated file but a bug: returning raises the signal again
    std::signal(signal, SIG_DFL);
    return;
  }
  constexpr std::string_view kMessage =
      "refx: a file was truncated while it was being read, or its disk failed; nothing was "
      "written. "
      "Start again with a complete file\n";
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(kUsage);
}

}  // namespace

void catch_bus_error() {
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

void catch_interrupt() { std::signal(SIGINT, on_interrupt); }
bool interrupted() { return seen != 0; }

}  // namespace refx::cli
