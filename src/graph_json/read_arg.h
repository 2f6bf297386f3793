// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph_json/read_json.h"
#include "refx/graph.h"

namespace refx {

// One argument of torch.export's schema: an object with one field, as_tensor, as_ints, …. Names
// stand for nodes of the graph. What refx does not interpret (a subgraph, a custom object) is Raw.
Arg read_arg(JsonDocument& document, ondemand::object object, const Graph& graph);

}  // namespace refx
