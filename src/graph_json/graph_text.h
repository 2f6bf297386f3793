// SPDX-License-Identifier: Apache-2.0
#pragma once

// graph_json/: graphs and arguments as torch.export's schema has them in JSON, read and written.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph_json/symbols.h"
#include "refx/model.h"

namespace refx {

// The metadata of a node whose value is no tensor and which the text does not have: its kind, a
// colon, and the text for it. As node.meta["val"] in torch.fx, it is no metadata of the file.
constexpr std::string_view kSymbolicValue = "val";

// The text that a graph was read from, by its parts: whatever is still the same is written as it
// was read. The views point into a text that the owner keeps.
struct GraphText {
  std::string_view document;  // models/model.json, or the argument that a subgraph is
  // Brackets included. A subgraph has no specs.
  struct Parts {
    std::string_view inputs, outputs, nodes, tensor_values, input_specs, output_specs;
  };
  Parts parts;

  struct NodeText {
    std::shared_ptr<const Node> node;
    std::string_view text;          // its element of `nodes`, or of `inputs`; empty for a getitem
    std::string_view spec;          // its element of `input_specs`
    std::string_view meta;          // its entry of `tensor_values`
    std::string_view outputs = {};  // the field of that name in `text`, of a call
    std::string_view single_return = {};  // likewise "is_hop_single_tensor_return"
  };
  std::vector<NodeText> nodes;  // by id

  // Values that are no tensors: their kind ("sym_int"), and what the text says of them.
  std::unordered_map<std::string, std::string> symbolic;
  std::unordered_map<std::string, std::string_view> symbolic_texts;
  std::map<std::string, std::string_view> symbolic_parts;  // by kind, brackets included
  std::vector<Mutation> mutations;                         // of a program
  Symbols symbols;
};

}  // namespace refx
