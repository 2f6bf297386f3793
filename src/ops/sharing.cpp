// SPDX-License-Identifier: Apache-2.0

#include "ops/sharing.h"

#include <fmt/format.h>

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

std::string Sharing::why_not(NodeId value, NodeId by, bool copies) const {
  if (is_written(value) || is_written(by)) return "its memory may be written in place";
  const Opcode op = graph_[by].op;
  if (results_.contains(value)) {
    if (op == Opcode::placeholder) return "the model would return its input itself, not a copy";
    if (op == Opcode::get_attr)
      return "the model would return its stored tensor itself, not a copy";
    if (results_.contains(by)) return "the model would return one tensor twice";
  }
  if (!copies && memory_.root(value) == memory_.root(by)) return "";
  if (is_returned(value) && is_returned(by)) return "two results of the model would share memory";
  if ((is_returned(value) && is_outside(by)) || (is_returned(by) && is_outside(value)))
    return "a result of the model would share memory with an input or a stored tensor";
  return "";
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
  if (entry.kind != StateKind::parameter || is_mutated(model, entry.name)) return true;
  for (NodeId reader : model.graph().readers(entry.name))
    if (sharing.is_written(reader) || sharing.is_returned(reader)) return true;
  const std::string_view owner = called_owner(model, entry.name);
  if (owner.empty()) return false;
  const Module& module = model.modules()[model.modules().find(owner)];
  return !module.custom.empty() || !module.type.starts_with("torch.nn.");
}

}  // namespace

std::string why_not_parted(const Model& model, const Param& param,
                           std::optional<Sharing>& sharing) {
  const std::string shared = why_shared(model, param);
  if (shared.empty()) return "";
  const StateEntry& entry = model.state()[param.state];
  if (is_mutated(model, entry.name) || !entry.tensor.has_storage()) return shared;
  // A module has no other name for a tensor of its own.
  if (!param.node && is_read_by_others(model, param)) return shared;
  if (!sharing) sharing.emplace(model);
  for (StateId id : model.state()) {
    const StateEntry& other = model.state()[id];
    if (other.tensor.has_storage() && other.tensor.is_alias_of(entry.tensor) &&
        may_be_written(model, other, *sharing))
      return fmt::format("{}, where it may be written", shared);
  }
  return "";
}

}  // namespace refx
