// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "ops/param.h"

namespace refx {

// A true division of a tensor by a constant, whichever way the model spells it.
struct DivOp {
  NodeId node, input;
  std::optional<double> number;   // x / 8
  std::optional<Param> tensor;    // x / c, c stored
  std::optional<Reason> problem;  // why it cannot be rewritten although it is a division

  static std::optional<DivOp> match(const Model& model, NodeId node);
  // The node as a multiplication by `factor`; type and metadata stay.
  Node as_multiplication(const Model& model, Arg factor) const;
};

}  // namespace refx
