// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "refx/model.h"

namespace refx::testing {

// Models for the contract test.

struct Specimen {
  std::string name;
  Model model;
};
inline void PrintTo(const Specimen& specimen, std::ostream* out) { *out << specimen.name; }

// Models of the usual kinds and of the corners, each in all three spellings.
std::vector<Specimen> zoo();

}  // namespace refx::testing
