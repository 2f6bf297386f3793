// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "graph_json/read_graph.h"
#include "graph_json/read_json.h"
#include "pt2/read_state.h"
#include "pt2/source.h"

namespace refx {

// What the signature of a program says of the inputs and outputs of its graph.
struct ProgramSignature {
  std::vector<GraphReader::InputSpec> inputs;
  StateRoles roles;         // of the state that inputs are bound to
  std::size_t outputs = 0;  // their number
};

// Reads the "signature" of a graph module, and records in the source the texts of the specs and
// which outputs are written into state or inputs.
ProgramSignature read_signature(JsonDocument& document, ondemand::object& module,
                                Pt2Source& source);

}  // namespace refx
