// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/mirror.h"
#include "engine/paths.h"

namespace refx::fx {

// The two halves of write() and write_all(), see mirror.h.
void write_modules(const Mirror& mirror, Tables& tables, py::handle graph_module,
                   const ChangedObjects& changed);
// Returns whether the graph has hooks of others.
bool write_nodes(const Mirror& mirror, Tables& tables, py::handle graph,
                 const std::vector<NodeId>& nodes, bool hooks);
void write_all_nodes(const Mirror& mirror, Tables& tables, py::handle graph);

}  // namespace refx::fx
