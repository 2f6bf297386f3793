// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "rules/reading.h"

namespace refx::rules {

using TypeOfArg = std::function<TypePtr(const Arg&)>;

// The type of what a call gives, from those of its arguments, symbolic sizes included; null where
// refx does not know the operator well enough, or its arguments do not fit. Strides are left open.
TypePtr result_type(const Reading& call, const TypeOfArg& type_of);

}  // namespace refx::rules
