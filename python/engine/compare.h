// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/mirror.h"
#include "engine/survey.h"

namespace refx::fx {

// Compares the GraphModule with the model, and records the nodes, modules and tensors that were
// added, removed or changed as one step of the author. Returns no step if there is no difference.
StepId compare(Model& model, Tables& tables, const Survey& survey, const Mirror::Author& author);

// Whether the graph has exactly the nodes that were last read or written.
bool has_same_nodes(const Model& model, const Tables& tables, py::handle graph);

}  // namespace refx::fx
