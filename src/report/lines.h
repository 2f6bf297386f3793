// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "refx/model.h"

namespace refx {

// The names of all nodes that a model has or had. An erased node may refer to other erased nodes,
// which are in no graph any more.
class NodeNames {
 public:
  NodeNames(const Model& original, const Model& current);
  const Name& operator[](NodeId id) const;

 private:
  void add(const Graph& graph);
  void add(NodeId id, const Node& node);
  std::vector<const Name*> names_;
};

// A node, a tensor or a module as one line for people, shorter than print() writes it:
//   %linear : f32[2, 4] = aten.linear.default(%x, %p_q_weight)
//   parameter q.weight : f32[4, 4]
std::string line_of(const Node& node, const NodeNames& names);
std::string line_of(const StateEntry& entry);
std::string line_of(const Module& module);

}  // namespace refx
