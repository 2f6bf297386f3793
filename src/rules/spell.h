// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refx/node.h"
#include "rules/reading.h"

namespace refx::rules {

// Spells a call of an aten operator as torch.export does: with its overload, the order of its
// arguments, and without defaults. Sets only target and arguments; the target is empty if no
// overload takes these arguments.
Node spell_as_op(const Reading& call);
// Spells it as torch.fx does: torch.nn.functional.linear.
Node spell_as_function(const Reading& call);

}  // namespace refx::rules
