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

}  // namespace refx
