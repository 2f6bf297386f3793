// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "refx/error.h"
#include "refx/export.h"

namespace refx {

// Something that the user can do about an error. The library throws the hint as a value, because
// the C++ library, the program and Python name the same option differently: hints.def has a row for
// each hint, with its wording for each of the three.
enum class Hint : std::uint8_t {
#define REFX_HINT(id, library, program, python) id,
#include "refx/hints.def"
#undef REFX_HINT
};

// Words a hint for one of the faces of refx.
using HintFormatter = std::string (*)(Hint hint);
REFX_API std::string to_string(Hint hint);         // by functions and fields, for C++
REFX_API std::string hint_as_flag(Hint hint);      // by commands and flags of the program
REFX_API std::string hint_as_argument(Hint hint);  // by arguments of the Python package

// Bad input, and what can be done about it. what() words the hint for C++.
class REFX_API HintedError : public Error {
 public:
  HintedError(const std::string& problem, Hint hint);

  const std::string& problem() const { return problem_; }
  Hint hint() const { return hint_; }
  std::string message(HintFormatter formatter) const;

 private:
  std::string problem_;
  Hint hint_;
};

}  // namespace refx
