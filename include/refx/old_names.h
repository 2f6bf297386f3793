// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refx/export.h"

namespace refx {

// Shipped rules once had other names. Saved histories, scripts and files of trials contain these,
// so a former name is accepted wherever a name is. A step keeps the name that it was saved with.
struct OldName {
  std::string_view old, current;
};
REFX_API std::span<const OldName> old_names();

// The name that a shipped transformation has now. Any other name is returned unchanged.
REFX_API std::string_view current_name(std::string_view name);
// True if both are names, former or current, of one transformation. The signature of a rule is its
// name, so signatures and marks may be compared, too.
REFX_API bool same_transformation(std::string_view a, std::string_view b);
// The current name, followed by all former ones.
REFX_API std::vector<std::string> all_names(std::string_view name);

}  // namespace refx
