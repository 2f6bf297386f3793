// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "refx/model.h"

namespace refx {

// The placeholders that the caller of the model provides, in order.
inline std::vector<NodeId> user_placeholders(const Model& model) {
  std::vector<NodeId> all;
  for (NodeId id : model.graph()) {
    const Node& node = model.graph()[id];
    if (node.op == Opcode::placeholder && node.state.empty()) all.push_back(id);
  }
  return all;
}

}  // namespace refx
