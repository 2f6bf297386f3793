// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/mirror.h"
#include "engine/survey.h"

namespace refx::fx {

// Compares what is there with the model, and writes what differs as one step of its author: the
// nodes, modules and tensors that came, went or changed. No step if nothing did.
StepId compare(Model& model, Tables& tables, const Survey& survey, const Mirror::Author& author);

// Whether the graph has the nodes of the model, as they were last read or written.
bool has_same_nodes(const Model& model, const Tables& tables, py::handle graph);

}  // namespace refx::fx
