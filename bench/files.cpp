// SPDX-License-Identifier: Apache-2.0

// Opens, transforms and saves a .pt2 file, compared with a plain copy of it. bench/files.py runs
// it.
//   bench_files MODEL OUT [TRANSFORMATION…]

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "refx/pt2.h"
#include "refx/registry.h"

namespace {

template <class F>
double milliseconds(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

// Of this program alone; getrusage() would include the process that started it.
double peak_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double kb = 0; word == "VmHWM:" && status >> kb) return kb / 1024;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3)
    return std::fprintf(stderr, "usage: bench_files MODEL OUT [TRANSFORMATION...]\n"), 2;
  const std::string path = argv[1], out = argv[2];
  const double before = peak_mb();
  double open = 1e30;
  for (int i = 0; i < 5; ++i) open = std::min(open, milliseconds([&] { refx::load(path); }));
  double copy = 1e30, save = 1e30, apply = 0;
  std::size_t steps = 0;
  for (int i = 0; i < 3; ++i) {
    const std::string command = fmt::format("cp '{}' '{}' && sync '{}'", path, out, out);
    copy = std::min(copy, milliseconds([&] {
                      if (std::system(command.c_str()) != 0) std::exit(2);
                    }));
    std::filesystem::remove(out);
    double applied = 0;
    const double all = milliseconds([&] {
      refx::Model model = refx::load(path);
      applied = milliseconds([&] {
        for (int t = 3; t < argc; ++t) refx::find_transformation(argv[t])(model);
      });
      steps = model.history().size();
      refx::save(model, out);
    });
    if (all < save) save = all, apply = applied;
  }
  fmt::print(
      "{{\"open_ms\": {:.2f}, \"copy_ms\": {:.1f}, \"apply_save_ms\": {:.1f}, \"apply_ms\": "
      "{:.1f}, "
      "\"steps\": {}, \"peak_mb\": {:.0f}}}\n",
      open, copy, save, apply, steps, peak_mb() - before);
}
