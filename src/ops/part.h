// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "refx/model.h"

namespace refx {

// These nodes and those that they are computed from, in the order of the graph; not what `known`
// has, or what only that is computed from.
std::vector<NodeId> needed_for(
    const Graph& graph, const std::vector<NodeId>& nodes,
    const std::function<bool(NodeId)>& known = [](NodeId) { return false; });

// A model of these nodes alone, in their order, which returns a tuple of the values of `results`.
Model part_of(const Model& model, const std::vector<NodeId>& nodes,
              const std::vector<NodeId>& results);

}  // namespace refx
