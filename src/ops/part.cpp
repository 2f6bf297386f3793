// SPDX-License-Identifier: Apache-2.0

#include "ops/part.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/map_arg.h"
#include "ops/param.h"
#include "refx/editor.h"

namespace refx {

std::vector<NodeId> needed_for(const Graph& graph, const std::vector<NodeId>& nodes,
                               const std::function<bool(NodeId)>& known) {
  std::unordered_set<NodeId> seen(nodes.begin(), nodes.end());
  std::vector<NodeId> needed = nodes;
  for (std::size_t i = 0; i < needed.size(); ++i)
    for_each_input(graph[needed[i]], [&](NodeId input) {
      // Breadth first, sorted below: the order of discovery is not that of the graph.
      if (!known(input) && seen.insert(input).second) needed.push_back(input);
    });
  std::sort(needed.begin(), needed.end(), [&](NodeId a, NodeId b) { return graph.precedes(a, b); });
  return needed;
}

Model part_of(const Model& model, const std::vector<NodeId>& nodes,
              const std::vector<NodeId>& results) {
  Model part;
  Editor editor(part);
  std::unordered_map<NodeId, NodeId> ids;
  for (NodeId id : nodes) {
    Node node = model.graph()[id];
    node.marks.clear();
    if (const Name& name = bound_state(node); !name.empty() && !editor.state().find(name))
      editor.add_state({name, StateKind::constant, true,
                        tensor_of(model, {model.state().find(name), id}).detach()});
    map_inputs(node, [&](NodeId input) { return ids.at(input); });
    ids[id] = editor.insert_before(NodeId{}, std::move(node));
  }
  Tuple returned;
  for (NodeId id : results) returned.items.push_back(ids.at(id));
  editor.insert_before(
      NodeId{}, {.op = Opcode::output, .name = "output", .target = "output", .args = {returned}});
  editor.commit_as_origin(model.source());
  return part;
}

}  // namespace refx
