// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refx/node.h"
#include "rules/reading.h"

namespace refx::rules {

// A call of an operator of aten as torch.export writes it: overload, order of arguments, defaults
// left out. Only target and arguments are set; no target if no overload takes such arguments.
Node spell_as_op(const Reading& call);
// As torch.fx writes it: torch.nn.functional.linear.
Node spell_as_function(const Reading& call);

}  // namespace refx::rules
