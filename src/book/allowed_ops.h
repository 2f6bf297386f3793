// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refx::book {

// Which aten operators a model may call when it runs. A model from a file may call those in the
// table allowed_ops.def: exported programs contain them, and they were tested with hostile
// arguments (fuzz/aten). No other operator is trusted with arguments from a file.

// Returns true if the table has the overload ("" is the default overload); without one, if it has
// any overload.
bool is_allowed(std::string_view name, std::optional<std::string_view> overload);
// The table: "aten::add.Tensor".
std::vector<std::string> allowed_ops();

// Operators that are refused in every model unless the table has them, by a pattern of their names
// (* matches any text).
struct RefusedOps {
  std::string_view names;
  std::string_view reason;  // "it …"
};
std::span<const RefusedOps> refused_ops();
// The reason of the first row that matches; empty if none does.
std::string_view why_refused(std::string_view name);

// Operators of other namespaces that the executor computes itself, so that none of their code runs.
bool is_built_in(std::string_view space, std::string_view name);

}  // namespace refx::book
