// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "ops/layer.h"

namespace refx {

// A batch normalisation, whichever way the model spells it.
struct BatchNormOp {
  NodeId node, input;
  std::optional<Param> weight, bias;  // absent without affine
  Param mean, var;
  std::optional<Param> batches;  // num_batches_tracked, where a module keeps it
  double eps = 1e-5;
  ModuleId module;
  std::optional<Reason> problem;  // why it cannot be folded although it is one

  static std::optional<BatchNormOp> match(const Model& model, NodeId node);
  std::vector<Param> tensors() const;  // but for num_batches_tracked
  // Drops its tensors and its module; the node must be gone or be something else by then.
  void erase_tensors(Editor& editor) const;
};

}  // namespace refx
