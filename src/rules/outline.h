// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "refx/model.h"

namespace refx::rules {

// The name of an operator as a number. It is the same in the whole process, and the same for the
// in-place operator; 0 is no name.
using Symbol = std::uint32_t;
Symbol symbol_of(std::string_view name);

// The operators that the nodes of a model call, and the nodes that call each operator. It is
// computed once for all rules.
class Outline {
 public:
  // The outline of the current state of the model, for this thread only.
  static std::shared_ptr<Outline> of(const Model& model);

  Symbol name(NodeId id) const { return names_[id.value]; }
  // no_op_input().
  NodeId handed_on(const Model& model, NodeId id);
  // The nodes that call one of these operators, in the order of the graph.
  std::vector<NodeId> calls(const std::vector<Symbol>& names) const;

 private:
  explicit Outline(const Model& model);

  std::uint64_t revision_;
  std::vector<NodeId> order_;
  std::vector<Symbol> names_;                                     // by node
  std::vector<std::optional<NodeId>> handed_on_;                  // by node; none: not asked yet
  std::unordered_map<Symbol, std::vector<std::uint32_t>> calls_;  // places in order_
};

}  // namespace refx::rules
