// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "refx/model.h"

namespace refx {

// Who may write which values, over a whole graph.
class Writes {
 public:
  explicit Writes(const Model& model);
  // Whether the memory of `value` may be written after `first` and before `last` run.
  bool between(NodeId value, NodeId first, NodeId last) const;
  bool ever(NodeId value) const { return writers_.contains(root(value)); }

  // One of the values that may share its memory, the same for all of them.
  NodeId root(NodeId node) const;
  // As if the two, which nobody writes, shared theirs.
  void join(NodeId a, NodeId b);

 private:
  const Graph& graph_;
  mutable std::vector<NodeId> parent_;                       // values that may share memory
  std::unordered_map<NodeId, std::vector<NodeId>> writers_;  // root -> writing nodes, in order
};

// The same, worked out when it is first asked for.
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

// Whether everyone who gets to see `value`, directly or through views, works the same when it is
// not contiguous: a slice of `width` columns out of a wider matrix.
bool tolerates_column_slice(const Model& model, NodeId value, std::int64_t width);
// Whether everyone who gets to see it works the same whatever its strides are.
bool tolerates_strides(const Model& model, NodeId value);

}  // namespace refx
