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

// A node of the original, of the current model, or of both. Texts are indices into Strings.
struct DrawnNode {
  NodeId id;
  int name = 0;
  int op = 0,
      op_before =
          0;       // the operator: the current one, if the node still exists, and the original one
  int path = 0;    // of the module that the node belongs to
  int label = -1;  // of the tensor that it reads or the module that it calls; -1: neither
  int before = -1, after = -1;             // its lines; -1: absent
  std::vector<int> inputs, inputs_before;  // nodes, in the current model and in the original
};

// The union of a model's graph and its original's, in graph order. Its layout is that of both
// forms, so that nodes do not move when the page switches between them.
class BothGraphs {
 public:
  BothGraphs(const Model& original, const Model& current, const NodeNames& names, Strings& strings);

  const std::vector<DrawnNode>& nodes() const { return nodes_; }
  // The index in nodes(); -1 if the node is in neither form.
  int position(NodeId id) const { return id.value < positions_.size() ? positions_[id.value] : -1; }

 private:
  void collect_rewritten(const Model& original, const Model& current);
  DrawnNode drawn(NodeId id, const NodeNames& names, Strings& strings) const;
  std::string line(const Node& node, const NodeNames& names, bool current) const;
  std::vector<int> inputs_of(const Node& node) const;

  const Model &original_, &current_;
  // Tensors whose values differ from the original, and modules whose tensors or settings differ.
  std::unordered_set<std::string> rewritten_state_, rewritten_modules_;
  std::vector<DrawnNode> nodes_;
  std::vector<int> positions_;
};

}  // namespace refx
