// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/jit_type_base.h>

#include <string>
#include <unordered_map>

#include "refx/graph.h"

namespace refx {

// Values of the graph that are no tensors, and their kind: "sym_int", "sym_float", "sym_bool".
using SymbolicValues = std::unordered_map<std::string, std::string>;

// An argument as torch.export's schema has it. `type`, if known, decides what an empty list is.
// Throws Error for what a file cannot hold.
void append_arg(std::string& out, const Arg& arg, const Graph& graph,
                const SymbolicValues& symbolic, const c10::TypePtr& type = nullptr);

}  // namespace refx
