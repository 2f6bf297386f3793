// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <unordered_set>

#include "ops/param.h"
#include "ops/writes.h"

namespace refx {

// Who could tell that one value is read in the place of another that equals it: a write to either
// would show in both, and a caller gets to see which results are one tensor.
class Sharing {
 public:
  explicit Sharing(const Model& model);

  // Why `by` cannot be read in the place of `value`; empty if it can. `copies`: `value` has its own
  // memory, even where an operator of its kind may hand on its argument's.
  std::optional<Reason> why_not(NodeId value, NodeId by, bool copies = false) const;
  // Will be so: what is asked from now on takes it into account.
  void replace(NodeId value, NodeId by);

  bool is_written(NodeId value) const { return memory_.ever(value); }
  bool is_returned(NodeId value) const { return returned_.contains(memory_.root(value)); }

 private:
  bool is_outside(NodeId value) const { return outside_.contains(memory_.root(value)); }

  const Graph& graph_;
  Writes memory_;
  std::unordered_set<NodeId> results_;  // what the graph returns
  std::unordered_set<NodeId> returned_,
      outside_;  // memory of results; of inputs and stored tensors
};

// Why the one user that `param` is of cannot be given another tensor instead, while others go on
// with this one; empty if it can. Works out the sharing if it needs it.
std::optional<Reason> why_not_separable(const Model& model, const Param& param,
                                        std::optional<Sharing>& sharing);

}  // namespace refx
