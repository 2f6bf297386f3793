// SPDX-License-Identifier: Apache-2.0

#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "interrupt.h"
#include "output.h"
#include "util/printable.h"

namespace refx::cli {

namespace {

constexpr std::size_t kBar = 20;  // characters
constexpr const char* kEraseLine = "\r\033[K";
// In a log file, a line for every report would be too many.
constexpr auto kLogInterval = std::chrono::seconds(30);

bool on_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) && term && std::string_view(term) != "dumb";
}

}  // namespace

Progress::Progress(std::size_t parts) : parts_(parts), is_line_(!is_quiet() && on_terminal()) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (!is_line_ || part_ == 0) return;
  part_ = 0;
  std::fputs(kEraseLine, stderr);
  std::fflush(stderr);
}

void Progress::next(std::string_view what) { show(part_++, what); }

OnProgress Progress::callback() {
  catch_interrupt();
  return [this](const refx::Progress& now) {
    if (interrupted()) throw Interrupted();
    parts_ = now.total;
    part_ = std::max<std::size_t>(now.done, 1);
    show(now.done, now.what);
  };
}

void Progress::show(std::size_t done, std::string_view what) {
  if (!is_line_) return log(done, what);
  const std::size_t filled = parts_ == 0 ? 0 : std::min(kBar, kBar * done / parts_);
  std::string line = kEraseLine;
  if (parts_ > 0) line += fmt::format("[{:#<{}}{:.<{}}] ", "", filled, "", kBar - filled);
  std::fputs((line + printable(position(done, what))).c_str(), stderr);
  std::fflush(stderr);
}

void Progress::log(std::size_t done, std::string_view what) {
  const auto now = std::chrono::steady_clock::now();
  if (now - logged_ < kLogInterval) return;
  logged_ = now;
  note(position(done, what));
}

// The library reports percentages with a total of 100 (or a multiple of it); other totals are
// counts.
std::string Progress::position(std::size_t done, std::string_view what) const {
  if (parts_ == 0) return std::string(what);
  return parts_ % 100 ? fmt::format("{}/{} {}", std::min(done + 1, parts_), parts_, what)
                      : fmt::format("{}% {}", 100 * done / parts_, what);
}

}  // namespace refx::cli
