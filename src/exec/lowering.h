// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "book/notation.h"
#include "exec/compile.h"

namespace refx::exec {

// Calls of functions and layers as operators of aten: what the book says they come to.

// Arguments by name, defaults filled in. Throws Error for one that is missing or unknown.
NamedOperands bind_signature(const book::Signature& signature, const std::vector<Operand>& args,
                             const NamedOperands& kwargs);
// Null if there is none.
const Operand* find_named(const NamedOperands& names, std::string_view name);

// Emits the call. `path` is the layer's, empty for a function.
Operand lower(Compiler& out, const book::Operation& operation, const NamedOperands& names,
              std::string_view path = "");

// torch.nn.functional.<name>, where it differs from aten's operator of that name; no value
// otherwise.
std::optional<Operand> lower_functional(Compiler& out, std::string_view name,
                                        const std::vector<Operand>& args,
                                        const NamedOperands& kwargs);
// A leaf module. Throws Error for a type that is not known.
Operand lower_layer(Compiler& out, const Module& module, const std::vector<Operand>& args,
                    const NamedOperands& kwargs);

}  // namespace refx::exec
