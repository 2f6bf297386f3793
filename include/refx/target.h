// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "refx/export.h"

namespace refx {

// The parts of a target that names an operator of the dispatcher: "aten.view.dtype".
struct OperatorParts {
  std::string space, name, overload;  // the default overload is "default"
};
// None for any other target: "torch.matmul", "operator.mul", somebody's function.
REFX_API std::optional<OperatorParts> operator_parts(std::string_view target);

}  // namespace refx
