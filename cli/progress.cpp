#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "output.h"

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

Progress::~Progress() {
  if (!shown_ || part_ == 0) return;
  std::fputs(kEraseLine, stderr);
  std::fflush(stderr);
}

void Progress::next(std::string_view what) {
  if (!shown_) return;
  const std::size_t filled = parts_ == 0 ? 0 : kBar * part_ / parts_;
  const std::string line = fmt::format("{}[{:#<{}}{:.<{}}] {}/{} {}", kEraseLine, "", filled, "",
                                       kBar - filled, ++part_, parts_, what);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace refx::cli
