// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/program.h"

namespace refx::exec {

// What a planner must know about an instruction, in addition to its schema.
enum class Role : std::uint8_t {
  compute,    // makes new tensors from the contents of others
  view,       // reads only metadata: the result is the same for the same tensors
  shape,      // reads sizes, types or numbers: constant for inputs of one signature
  constant,   // has no tensor among its inputs, and no random numbers
  write,      // changes an argument
  unplanned,  // a shape or a number depends on contents, or nobody knows: no plan for this graph
};

// The role of a bound instruction, before it runs.
Role role_of(const Instruction& instruction, const Values& slots);

}  // namespace refx::exec
