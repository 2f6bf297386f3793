// SPDX-License-Identifier: Apache-2.0

#include "ops/sharing.h"

namespace refx {

Sharing::Sharing(const Model& model) : graph_(model.graph()), memory_(model) {
  for_each_input(graph_[graph_.output()], [&](NodeId result) {
    results_.insert(result);
    returned_.insert(memory_.root(result));
  });
  for (NodeId id : graph_)
    if (graph_[id].op == Opcode::placeholder || graph_[id].op == Opcode::get_attr)
      outside_.insert(memory_.root(id));
}

std::optional<Reason> Sharing::why_not(NodeId value, NodeId by, bool copies) const {
  if (is_written(value) || is_written(by)) return because<ReasonId::memory_written>();
  const Opcode op = graph_[by].op;
  if (results_.contains(value)) {
    if (op == Opcode::placeholder) return because<ReasonId::would_return_input>();
    if (op == Opcode::get_attr) return because<ReasonId::would_return_stored_tensor>();
    if (results_.contains(by)) return because<ReasonId::would_return_tensor_twice>();
  }
  // They are views of the same memory already, so that nobody can tell the difference.
  if (!copies && memory_.root(value) == memory_.root(by)) return std::nullopt;
  if (is_returned(value) && is_returned(by)) return because<ReasonId::results_would_share_memory>();
  if ((is_returned(value) && is_outside(by)) || (is_returned(by) && is_outside(value)))
    return because<ReasonId::result_would_share_outside>();
  return std::nullopt;
}

void Sharing::replace(NodeId value, NodeId by) {
  const NodeId a = memory_.root(value), b = memory_.root(by);
  memory_.join(value, by);
  const NodeId both = memory_.root(by);
  if (returned_.contains(a) || returned_.contains(b)) returned_.insert(both);
  if (outside_.contains(a) || outside_.contains(b)) outside_.insert(both);
  if (results_.contains(value)) results_.insert(by);
}

namespace {

// Whether anyone may write the entry: what nodes do is known, and that torch's own layers write no
// parameters.
bool may_be_written(const Model& model, const StateEntry& entry, const Sharing& sharing) {
  // Buffers are written by many models, outside of the graph as well.
  if (entry.kind != StateKind::parameter || is_mutated(model, entry.name)) return true;
  for (NodeId reader : model.graph().readers(entry.name))
    if (sharing.is_written(reader) || sharing.is_returned(reader)) return true;
  const std::string_view owner = called_owner(model, entry.name);
  if (owner.empty()) return false;
  const Module& module = model.modules()[model.modules().find(owner)];
  return !module.custom.empty() || !module.type.starts_with("torch.nn.");
}

}  // namespace

std::optional<Reason> why_not_separable(const Model& model, const Param& param,
                                        std::optional<Sharing>& sharing) {
  const std::optional<Reason> shared = why_shared(model, param);
  if (!shared) return std::nullopt;
  const StateEntry& entry = model.state()[param.state];
  if (is_mutated(model, entry.name) || !entry.tensor.has_storage()) return shared;
  // A module has no other name for a tensor of its own.
  if (!param.node && is_read_by_others(model, param)) return shared;
  if (!sharing) sharing.emplace(model);
  for (StateId id : model.state()) {
    const StateEntry& other = model.state()[id];
    if (other.tensor.has_storage() && other.tensor.is_alias_of(entry.tensor) &&
        may_be_written(model, other, *sharing))
      return shared->id == ReasonId::used_elsewhere
                 ? because<ReasonId::used_elsewhere_and_written>(entry.name)
                 : because<ReasonId::memory_shared_and_written>(entry.name);
  }
  return std::nullopt;
}

}  // namespace refx
