// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "refx/export.h"

namespace refx {

// The parts of the name of a dispatcher operator: "aten.view.dtype".
struct OperatorParts {
  std::string space, name, overload;  // "aten", "view", "dtype"; "default" if none is named
};
// Returns nothing for any other target: "torch.matmul", "operator.mul", a function of another
// library.
REFX_API std::optional<OperatorParts> operator_parts(std::string_view target);

}  // namespace refx
