// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "graph_json/graph_text.h"
#include "refx/model.h"

namespace refx {

// A graph that is an argument of a higher-order operator: a branch of torch.cond, the region of a
// `with torch.no_grad()`. A file has it as JSON, which the argument (a Raw) keeps.
struct Subgraph {
  std::string name;     // "true_graph_0"
  Model model;          // has no state: its inputs are given by the operator, in order
  bool single = false;  // returns one value, not a tuple of them
  GraphText text;
  std::shared_ptr<const std::string> source;  // what `text` points into
};

bool is_subgraph(const Arg& arg);
// Throws Error for an argument that is not a well-formed subgraph.
Subgraph read_subgraph(const Arg& arg);
// The argument for a subgraph whose model was changed.
Arg write_subgraph(const Subgraph& subgraph);

}  // namespace refx
