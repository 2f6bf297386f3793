// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "refx/model.h"

namespace refx {

// These nodes and those from which they are computed, in the order of the graph. Leaves out nodes
// for which `known` is true, and those that only they need.
std::vector<NodeId> needed_for(
    const Graph& graph, const std::vector<NodeId>& nodes,
    const std::function<bool(NodeId)>& known = [](NodeId) { return false; });

// A model of only these nodes, in their order, that returns a tuple of the values of `results`.
Model part_of(const Model& model, const std::vector<NodeId>& nodes,
              const std::vector<NodeId>& results);

}  // namespace refx
