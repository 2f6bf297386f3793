#pragma once

#include "refx/node.h"
#include "rules/literal.h"

namespace refx::rules {

// The type of what a call gives, found by calling it on tensors without data; null where the
// operator cannot be called so, or not with these arguments. Symbolic sizes are taken for what they
// were in the example: that is good enough to compare with (`compared`), not to be recorded.
TypePtr probed_type(const Node& call, const TypeOfValue& type_of, bool compared);

}  // namespace refx::rules
