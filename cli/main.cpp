// SPDX-License-Identifier: Apache-2.0

// The program: runs one command and maps errors to exit codes. Results go to stdout, messages to
// stderr.

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <new>

#include "command_line.h"
#include "commands.h"
#include "interrupt.h"
#include "refx/error.h"
#include "refx/hint.h"
#include "util/first_line.h"
#include "util/printable.h"

namespace {

int run(int argc, char** argv) {
  using namespace refx::cli;
  using refx::printable;
  // `refx log model.pt2 | head -1` ends without a message, even if the parent process ignores the
  // signal.
  std::signal(SIGPIPE, SIG_DFL);
  catch_bus_error();
  try {
    const int code = run_command_line(argc, argv);
    const bool written =
        std::fflush(stdout) == 0 && !std::ferror(stdout);  // this write failed, or an earlier one
    if (!written) throw refx::Error("cannot write the output");
    return code;
  } catch (const Interrupted&) {
    fmt::print(stderr, "refx: interrupted; nothing was written\n");
    return kInterrupted;
  } catch (const refx::InternalError& error) {
    fmt::print(stderr, "refx: internal error: {}\nThis is a bug in refx; please report it.\n",
               printable(error.what()));
    return kBug;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "refx: out of memory\n");
    return kUsage;
  } catch (const refx::HintedError& error) {
    fmt::print(stderr, "refx: {}\n", printable(error.message(refx::hint_as_flag)));
    return kUsage;
  } catch (const refx::Error& error) {
    fmt::print(stderr, "refx: {}\n", printable(error.what()));
    return kUsage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "refx: {}\n", printable(refx::first_line(error.what())));
    return kUsage;
  }
}

}  // namespace

// Exits without running the destructors of torch's libraries: they free every object by itself,
// which takes longer than the kernel needs to free the whole process.
int main(int argc, char** argv) {
  const int code = run(argc, argv);
  std::fflush(nullptr);
  _exit(code);
}
