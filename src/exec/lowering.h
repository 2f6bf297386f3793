#pragma once

#include <string>
#include <string_view>

#include "exec/compile.h"

namespace refx::exec {

// A small notation for "this call of torch is that operator of aten":
//
//   signature  input running_mean running_var weight=None bias=None training=False
//   call       aten.batch_norm.default(input, weight, bias, running_mean, running_var, training)
//
// In a call, a name stands for an argument, `.weight` for the layer's tensor, `.bias?` for one that
// may be absent, `[n]` for n as a list; None, True, 1, 0.5 and 'text' stand for themselves. Where
// the argument `inplace` is true, the operator's in-place twin (aten.relu_.default) is meant.

// Arguments by name, defaults filled in. Throws Error for one that is missing or unknown.
NamedOperands bind_signature(std::string_view signature, const std::vector<Operand>& args,
                             const NamedOperands& kwargs);
// Null if there is none.
const Operand* find_named(const NamedOperands& names, std::string_view name);

// Emits the call. `path` is the layer's, empty for a function.
Operand lower(Compiler& out, std::string_view call, const NamedOperands& names,
              std::string_view path = "");

// torch.nn.functional.<name>, where it differs from aten's operator of that name; no value
// otherwise.
std::optional<Operand> lower_functional(Compiler& out, std::string_view name,
                                        const std::vector<Operand>& args,
                                        const NamedOperands& kwargs);
// A leaf module. Throws Error for a type that is not known.
Operand lower_layer(Compiler& out, const Module& module, const std::vector<Operand>& args,
                    const NamedOperands& kwargs);
// Every type that lower_layer knows, sorted.
std::vector<std::string> known_layers();

}  // namespace refx::exec
