// SPDX-License-Identifier: Apache-2.0

#include "refx/error.h"

namespace refx {

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw InternalError("internal error: " + message + " (" + condition + ", " + file + ":" +
                      std::to_string(line) + "); please report it");
}

}  // namespace refx
