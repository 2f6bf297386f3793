// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/program.h"

namespace refx::exec {

// torch.nn.functional.interpolate; its operands in the order that the book has.
c10::IValue interpolate(const NativeCall& call);

}  // namespace refx::exec
