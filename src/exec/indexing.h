// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/program.h"

namespace refx::exec {

// Python's x[index] and x[index] = value, for tensors, tuples and lists.
c10::IValue getitem(const NativeCall& call);
c10::IValue setitem(const NativeCall& call);

}  // namespace refx::exec
