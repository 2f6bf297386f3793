// SPDX-License-Identifier: Apache-2.0

// refx explain: what a transformation does, or what a refusal means.

#include "commands.h"
#include "output.h"
#include "refx/explain.h"

namespace refx::cli {

int explain(const std::string& what) {
  say_lines(refx::explain(what));
  return kDone;
}

}  // namespace refx::cli
