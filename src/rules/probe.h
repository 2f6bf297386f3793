#pragma once

#include "refx/node.h"
#include "rules/literal.h"

namespace refx::rules {

// The type of what a call gives, found by calling it on zeros of its arguments' types; null where
// that does not work. Symbolic sizes are taken for what they were in the example: that is good
// enough to compare with (`compared`), not to be recorded.
TypePtr probed_type(const Node& call, const TypeOfValue& type_of, bool compared);

}  // namespace refx::rules
