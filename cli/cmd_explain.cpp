// SPDX-License-Identifier: Apache-2.0

// refx explain: explains a transformation or the reason of a refusal.

#include "commands.h"
#include "output.h"
#include "refx/explain.h"

namespace refx::cli {

int explain(const std::string& what) {
  say_lines(refx::explain(what));
  return kDone;
}

}  // namespace refx::cli
