// SPDX-License-Identifier: Apache-2.0

// Before:   y = dropout(x)                 in eval mode; also a copy, a conversion to the same
//                                          dtype, a view of the same shape, x * 1, two
//                                          transpositions that cancel each other, …
// After:    the users of y read x
// Refuses:  memory that may be written in place; a copy with other strides; a change after which
//           a result of the model would be an input, a stored tensor or another result, or would
//           share its memory; a value that crosses the boundary of a module whose call is preserved
// Numerics: identical
//
// The model has no dropout until the step is reversed, so it should not be trained before.

#include "book/call.h"
#include "ops/names.h"
#include "ops/no_op.h"
#include "ops/sharing.h"
#include "refx/transforms.h"

namespace refx {

namespace {

bool asks_for_copy(const book::Call& call) {
  if (!call.takes("copy")) return false;
  const auto copy = call.argument("copy");
  return !copy || *copy != Arg(false);
}

// Whether the strides of the result are those of what it hands on. Those that a graph of torch.fx
// records are of an example.
bool keeps_strides(const Model& model, NodeId id, NodeId input) {
  const Node& node = model.graph()[id];
  const book::Call call(model, node);
  for (const char* view : {"identity", "alias", "detach", "detach_", "slice", "expand", "getitem",
                           "transpose", "permute", "t"})
    if (call.is(view)) return true;
  if (call.name().ends_with("dropout")) return true;
  const TypePtr& given = model.graph()[input].type;
  return call.spelled() == book::Call::Spelled::op && node.type && given &&
         strides_of(*node.type) == strides_of(*given);
}

std::optional<Reason> why_not(const Model& model, NodeId id, NodeId input, const Sharing& sharing) {
  const book::Call call(model, model.graph()[id]);
  if (!keeps_strides(model, id, input)) return because<ReasonId::strides_may_differ>();
  if (auto why = why_not_across_modules(model, id, input)) return why;
  return sharing.why_not(id, input, asks_for_copy(call));
}

// The nodes that lead from `from` back to `to` and that only the one before them reads.
std::vector<NodeId> chain(const Graph& graph, NodeId from, NodeId to) {
  std::vector<NodeId> nodes;
  while (from != to && (nodes.empty() || graph.num_users(from) == 1)) {
    nodes.push_back(from);
    NodeId next;
    for_each_input(graph[from], [&](NodeId input) { next = next ? next : input; });
    from = next;
  }
  return nodes;
}

}  // namespace

Findings RemoveNoOps::find(const Model& model) const {
  Findings findings;
  std::optional<Sharing> sharing;
  for (NodeId id : model.graph()) {
    if (model.graph().num_users(id) == 0) continue;
    const NodeId input = no_op_input(model, id);
    if (!input) continue;
    if (!sharing) sharing.emplace(model);
    Site site{.nodes = chain(model.graph(), id, input)};
    if (findings.add(std::move(site), why_not(model, id, input, *sharing)))
      sharing->replace(id, input);
  }
  return findings;
}

std::optional<Reason> RemoveNoOps::apply(Editor& editor, const Site& site) const {
  const NodeId id = site.nodes[0], input = no_op_input(editor.model(), id);
  for (NodeId user : editor.graph().users(id))
    editor.mark(editor.graph()[user].op == Opcode::output ? input : user, signature());
  editor.replace_uses(id, input);
  for (NodeId unread : site.nodes) {
    const Node& node = editor.graph()[unread];
    const std::string module = node.op == Opcode::call_module ? node.target : "";
    editor.erase_node(unread);
    if (!module.empty() && editor.graph().num_callers(module) == 0)
      editor.erase_module(editor.modules().find(module));
  }
  return std::nullopt;
}

}  // namespace refx
