// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "book/higher_order.h"
#include "exec/program.h"

namespace refx::exec {

// torch.cond, while_loop, scan and map: the subgraphs that they call, compiled.
struct ControlFlow {
  struct Body {
    Program program;
    Stack stack;
    bool single = false;  // returns one value, not a tuple of them
  };
  book::HigherOrder::Construct kind = book::HigherOrder::Construct::cond;
  std::vector<Body> bodies;
};

// Runs it as torch does in eager mode. The operands are the condition of a cond, then the tuples
// `carried`, `sliced` and `fixed` of book::HigherOrder. Returns a tuple.
c10::IValue run_control_flow(ControlFlow& flow, const NativeCall& call);

// A program that can run at the same time as this one: they share tensors of state, and no slots.
Program separate_copy(const Program& program);

}  // namespace refx::exec
