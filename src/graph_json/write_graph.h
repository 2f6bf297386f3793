// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "graph_json/graph_text.h"
#include "refx/model.h"

namespace refx {

// The text that the graph was read from (models/model.json, or a subgraph), for the model as it is
// now: the original's text wherever the model is still the same.
std::string program_text(const Model& model, const GraphText& source);
// Whether that is `text`, which is compared as it would be written.
bool is_program_text(std::string_view text, const Model& model, const GraphText& source);

}  // namespace refx
