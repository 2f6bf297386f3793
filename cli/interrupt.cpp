#include "interrupt.h"

#include <csignal>

namespace refx::cli {

namespace {

volatile std::sig_atomic_t seen = 0;

extern "C" void on_interrupt(int) {
  seen = 1;
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

void catch_interrupt() { std::signal(SIGINT, on_interrupt); }
bool interrupted() { return seen != 0; }

}  // namespace refx::cli
