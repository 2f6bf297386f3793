// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "exec/compile.h"

namespace refx::exec {

// Matrix products of groups of rows: rows offs[i-1] to offs[i] of an input [rows, in] by matrix i
// of a weight [groups, in, out].

// transformers.grouped_mm_fallback(input, weight, offs), which that library registers from Python:
// the same sequence of products. Rows after the last group are zeros.
c10::IValue grouped_mm_fallback(const NativeCall& call);
// aten._grouped_mm(self, mat2, offs). aten has no float64, which verify runs models in: those
// products are computed like the ones above.
c10::IValue grouped_mm(const NativeCall& call);

// Emits a call of either; no value for any other target.
std::optional<Operand> lower_grouped_mm(Compiler& out, std::string_view target,
                                        const std::vector<Operand>& args,
                                        const NamedOperands& kwargs);

}  // namespace refx::exec
