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

constexpr std::size_t kBar = 20;
constexpr const char* kEraseLine = "\r\033[K";

bool on_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) && term && std::string_view(term) != "dumb";
}

}  // namespace

Progress::Progress(std::size_t parts) : parts_(parts), shown_(!is_quiet() && on_terminal()) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (!shown_ || part_ == 0) return;
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
  if (!shown_) return;
  const std::size_t filled = parts_ == 0 ? 0 : std::min(kBar, kBar * done / parts_);
  std::string line = kEraseLine;
  if (parts_ > 0) line += fmt::format("[{:#<{}}{:.<{}}] ", "", filled, "", kBar - filled);
  // Parts that are counted, or hundredths of the whole.
  if (parts_ > 0)
    line += parts_ % 100 ? fmt::format("{}/{} ", std::min(done + 1, parts_), parts_)
                         : fmt::format("{}% ", 100 * done / parts_);
  line += printable(what);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace refx::cli
