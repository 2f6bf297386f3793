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
  std::signal(SIGINT, SIG_DFL);
}

extern "C" void on_cut_off(int signal, siginfo_t* info, void*) {
  if (info->si_code != BUS_ADRERR) {  // a bug, which comes again on return
    std::signal(signal, SIG_DFL);
    return;
  }
  constexpr std::string_view kMessage =
      "refx: a file was cut off while it was being read, or its disk failed; nothing was written. "
      "Start again with a whole file\n";
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(kUsage);
}

}  // namespace

void catch_cut_off() {
  struct sigaction action = {};
  action.sa_sigaction = on_cut_off;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

void catch_interrupt() { std::signal(SIGINT, on_interrupt); }
bool interrupted() { return seen != 0; }

}  // namespace refx::cli
