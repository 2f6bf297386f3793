// SPDX-License-Identifier: Apache-2.0

#include "refx/hint.h"

#include <cstddef>

namespace refx {

namespace {

struct Wording {
  const char *library, *program, *python;
};

constexpr Wording kWordings[] = {
#define REFX_HINT(id, library, program, python) {library, program, python},
#include "refx/hints.def"
#undef REFX_HINT
};

const Wording& wording_of(Hint hint) { return kWordings[static_cast<std::size_t>(hint)]; }

}  // namespace

std::string to_string(Hint hint) { return wording_of(hint).library; }
std::string hint_as_flag(Hint hint) { return wording_of(hint).program; }
std::string hint_as_argument(Hint hint) { return wording_of(hint).python; }

HintedError::HintedError(const std::string& problem, Hint hint)
    : Error(problem + "; " + to_string(hint)), problem_(problem), hint_(hint) {}

std::string HintedError::message(HintFormatter formatter) const {
  return problem_ + "; " + formatter(hint_);
}

}  // namespace refx
