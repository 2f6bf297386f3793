// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include "refx/export.h"

namespace refx {

// Bad input or an impossible request: says what, where, and what to do next. Nothing was changed.
class REFX_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A bug in refx or in a transformation, never the user's input.
class REFX_API InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] REFX_API void check_failed(const char* condition, const char* file, int line,
                                        const std::string& message);

}  // namespace refx

// Always on. The message is evaluated only on failure.
#define REFX_CHECK(condition, message)                                 \
  do {                                                                 \
    if (!(condition)) [[unlikely]]                                     \
      ::refx::check_failed(#condition, __FILE__, __LINE__, (message)); \
  } while (false)
