#pragma once

#include <span>
#include <string_view>

namespace refx::book {

// Which operators a model may call when it runs: those of aten and prims that neither touch files
// nor take memory on trust.

// Operators of aten and prims that do, by a pattern of their names (* stands for any text).
struct RefusedOps {
  std::string_view names;
  std::string_view reason;  // "it …"
};
std::span<const RefusedOps> refused_ops();
// Internal operators, which begin with an underscore, that check their arguments nevertheless, or
// without which exported programs do not run.
std::span<const std::string_view> internal_ops();

// The operators of these namespaces run, but for those above.
bool is_common(std::string_view space);
// Why an operator of a common namespace does not run unless it is allowed; empty: it does.
std::string_view why_refused(std::string_view name);

}  // namespace refx::book
