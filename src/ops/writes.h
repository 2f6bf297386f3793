// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "refx/model.h"

namespace refx {

// Which nodes of a graph may write the memory of which values.
class Writes {
 public:
  explicit Writes(const Model& model);
  // Returns true if a node between `first` and `last` may write the memory of `value`.
  bool between(NodeId value, NodeId first, NodeId last) const;
  bool ever(NodeId value) const { return writers_.contains(root(value)); }

  // A representative of the values that may share memory with this one.
  NodeId root(NodeId node) const;
  // Treats two values that nobody writes as sharing memory.
  void join(NodeId a, NodeId b);

 private:
  const Graph& graph_;
  mutable std::vector<NodeId> parent_;                       // values that may share memory
  std::unordered_map<NodeId, std::vector<NodeId>> writers_;  // root -> writing nodes, in order
};

// The same, computed on first use.
class LazyWrites {
 public:
  explicit LazyWrites(const Model& model) : model_(model) {}
  bool between(NodeId value, NodeId first, NodeId last) {
    if (!writes_) writes_.emplace(model_);
    return writes_->between(value, first, last);
  }

 private:
  const Model& model_;
  std::optional<Writes> writes_;
};

// Returns true if all users of `value`, direct or through views, behave the same if it is not
// contiguous: a slice of `width` columns of a wider matrix.
bool tolerates_column_slice(const Model& model, NodeId value, std::int64_t width);
// Returns true if all its users behave the same for all strides.
bool tolerates_strides(const Model& model, NodeId value);

}  // namespace refx
