// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "book/target.h"
#include "exec/program.h"

namespace refx::exec {

// Python's own functions that graphs call: operator.*, math.*, getattr, torch.sym_*, and methods
// that read a tensor's metadata. All of them work on numbers, shapes and tensors alike.
struct PythonFunction {
  Native native = nullptr;
  Bind bind = nullptr;  // arithmetic: numbers natively, tensors by aten
};
// Without the module's name: "truediv", "getitem", "sym_max". Null if there is none.
const PythonFunction* find_operator_function(std::string_view name);
const PythonFunction* find_builtin(
    const book::Target& target);                           // getattr, math.floor, torch.sym_int
const PythonFunction* find_method(std::string_view name);  // "size", "float"

// Native functions that look at a tensor's sizes and types, never at its contents.
bool reads_metadata_only(Native native);
c10::IValue get_attribute(const NativeCall& call);  // getattr(x, "shape")

}  // namespace refx::exec
