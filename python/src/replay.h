#pragma once

#include "mirror.h"
#include "paths.h"

namespace refx::python {

// The two halves of follow(), see mirror.h.
void follow_modules(const Mirror& mirror, Tables& tables, py::handle graph_module,
                    const Touched& touched);
void follow_nodes(const Mirror& mirror, Tables& tables, py::handle graph,
                  const std::vector<NodeId>& nodes, bool hooks);
void restore_nodes(const Mirror& mirror, Tables& tables, py::handle graph);

}  // namespace refx::python
