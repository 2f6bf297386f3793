// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "refx/history.h"

namespace refx {

// What a tensor, module or node that a step made stands for.
struct Origin {
  std::vector<Name> tensors;  // names of tensors that were there before
  std::vector<Name> nodes;    // node_path of nodes that were there before

  void add(const Origin& other);
};

// Where the parts of a rewritten model came from, read from the edits of its live steps. A new
// tensor, module or node stands for everything that its step replaced; a node that became another
// operator also stands for the nodes that were erased in the same step.
class Origins {
 public:
  explicit Origins(const History& history);

  // Null: it is as it was before the first step.
  const Origin* of(NodeId node) const { return find(nodes_, node); }
  const Origin* of(StateId state) const { return find(states_, state); }
  const Origin* of(ModuleId module) const { return find(modules_, module); }
  // What a live step replaced.
  const Origin& of(StepId step) const { return *steps_.at(step); }

 private:
  using Ptr = std::shared_ptr<const Origin>;
  template <class Id>
  static const Origin* find(const std::unordered_map<Id, Ptr>& of, Id id) {
    const auto it = of.find(id);
    return it == of.end() ? nullptr : it->second.get();
  }
  void add_step(const Step& step);
  Origin before(const Change<Node>& change) const;
  Origin before(const Change<StateEntry>& change) const;

  std::unordered_map<NodeId, Ptr> nodes_;
  std::unordered_map<StateId, Ptr> states_;
  std::unordered_map<ModuleId, Ptr> modules_;
  std::unordered_map<StepId, Ptr> steps_;
};

}  // namespace refx
