// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refx/node.h"
#include "rules/literal.h"

namespace refx::rules {

// The type of what a call gives, found by calling it on tensors without data; null where the
// operator cannot be called so, or not with these arguments.
TypePtr probed_type(const Node& call, const TypeOfValue& type_of);

}  // namespace refx::rules
