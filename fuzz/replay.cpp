// SPDX-License-Identifier: Apache-2.0

// Repeats failures found earlier: `refx_fuzz FOLDER…`. A subfolder with the name of a target has
// inputs for that target.

#include <cstdio>
#include <filesystem>

#include "scratch.h"
#include "target.h"

namespace fs = std::filesystem;

int main(int argc, char** argv) {
  int runs = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& target : refx::fuzz::targets()) {
      const fs::path folder = fs::path(argv[i]) / target.name;
      if (!fs::exists(folder)) continue;
      for (const auto& entry : fs::directory_iterator(folder)) {
        std::printf("%s ", entry.path().c_str());
        std::fflush(stdout);
        const std::string why = refx::fuzz::run(target, refx::fuzz::read_file(entry.path()));
        std::printf("is %s\n", why.empty() ? "taken" : ("refused: " + why).c_str());
        ++runs;
      }
    }
  }
  std::printf("%d inputs, no fault\n", runs);
  return runs == 0;
}
