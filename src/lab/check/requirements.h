// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rules/definition.h"

namespace refx::checking {

// What the `where` of a rule requires of one variable, as far as it can be read from the graph.
struct Requirements {
  std::int64_t least_rank = 0, most_rank = 5;
  std::vector<double> numbers;  // numbers that it is compared with
  bool equal = false;           // one of them is required, exactly or nearly
};
Requirements requirements_of(const rules::Definition& rule, const std::string& variable);

// Whether a variable may be absent: as an operand whose call is then omitted, or as an argument
// that is optional in the schema.
bool may_be_absent(const rules::Body& body, const std::string& variable);

}  // namespace refx::checking
