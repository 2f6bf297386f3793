// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "refx/model.h"
#include "report/lines.h"
#include "report/strings.h"

namespace refx {

// A node of the original, of the model as it is, or of both. Texts are numbers of Strings.
struct DrawnNode {
  NodeId id;
  int name = 0;
  int op = 0, op_before = 0;    // what is called; now, if it is still there, and in the original
  int path = 0;                 // of the module it belongs to
  int label = -1;               // of the tensor it reads or the module it calls; -1: neither
  int before = -1, after = -1;  // its lines; -1: it is not there
  std::vector<int> inputs, inputs_before;  // nodes, in either form
};

// The union of a model's graph and its original's, in graph order, so that a drawing of it holds
// both forms in the same places.
class BothGraphs {
 public:
  BothGraphs(const Model& original, const Model& current, const NodeNames& names, Strings& strings);

  const std::vector<DrawnNode>& nodes() const { return nodes_; }
  // Where it is among nodes(); -1 if it is in neither form.
  int position(NodeId id) const { return id.value < positions_.size() ? positions_[id.value] : -1; }

 private:
  void collect_rewritten(const Model& original, const Model& current);
  DrawnNode drawn(NodeId id, const NodeNames& names, Strings& strings) const;
  std::string line(const Node& node, const NodeNames& names, bool current) const;
  std::vector<int> inputs_of(const Node& node) const;

  const Model &original_, &current_;
  // Tensors with other values, and modules with other tensors or settings, than in the original.
  std::unordered_set<std::string> rewritten_state_, rewritten_modules_;
  std::vector<DrawnNode> nodes_;
  std::vector<int> positions_;
};

}  // namespace refx
