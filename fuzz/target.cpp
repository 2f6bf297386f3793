// SPDX-License-Identifier: Apache-2.0

#include "target.h"

#include <cstdio>
#include <cstdlib>

#include "refx/error.h"

namespace refx::fuzz {

const std::vector<Target>& targets() {
  static const std::vector<Target> all = {
      {"zip", run_zip},
      {"pickle", run_pickle},
      {"program", run_file, mutate_program},
      {"history", run_file, mutate_history},
      {"text", run_text},
      {"rule", run_rule},
      {"operators", run_operators},
      {"graph_module", run_graph_module, mutate_graph_module},
  };
  return all;
}

void fault(const std::string& what) {
  std::fprintf(stderr, "fault: %s\n", what.c_str());
  std::abort();
}

std::string run(const Target& target, std::string_view bytes) {
  try {
    target.run(bytes);
    return "";
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    fault(error.what());
  }
}

}  // namespace refx::fuzz
