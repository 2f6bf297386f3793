// SPDX-License-Identifier: Apache-2.0

// Finds the nodes of a copied or unpickled GraphModule that correspond to the nodes of its mirror.

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "engine/convert.h"
#include "engine/marks.h"
#include "engine/mirror.h"
#include "engine/survey.h"
#include "refx/id_set.h"

namespace refx::fx {

namespace {

// Whether the two nodes have the same opcode and target.
bool is_like(const Model& model, Tables& tables, NodeId id, const FxNode& fx_node) {
  const Node& node = model.graph()[id];
  Node other{.op = fx_node.op};
  set_target(tables, attr(fx_node.node, Fx::get().target), other);
  if (fx_node.op == Opcode::get_attr && node.target.starts_with(kOpaqueAttr))
    return node.target.substr(kOpaqueAttr.size()) == other.target;
  return node.op == other.op && (node.target == other.target || node.op == Opcode::output);
}

}  // namespace

// Neither names nor positions alone identify nodes: torch.fx renames some nodes when it unpickles a
// graph, and somebody may have inserted nodes since. Both are tried, the more promising one first.
// A wrong match is harmless: the next read compares the nodes and records the difference.
void Mirror::attach(Tables& tables, py::handle graph_module,
                    const std::vector<std::string>& names) {
  const std::vector<FxNode> fx_nodes = nodes_of(graph_module);
  const std::vector<NodeId> ids(model_.graph().begin(), model_.graph().end());
  tables.grow(model_.graph().id_limit());
  const std::size_t size = fx_nodes.size();
  std::unordered_map<std::string_view, NodeId> by_name;
  for (std::size_t i = 0; i < ids.size() && i < names.size(); ++i)
    by_name.emplace(names[i], ids[i]);

  // Candidates by name, and by position: counted from both ends of the graph, so that an insertion
  // in the middle leaves the nodes before and after it in place.
  std::vector<NodeId> named(size), placed(size);
  for (std::size_t i = 0; i < size; ++i) {
    auto it = by_name.find(to_string(attr(fx_nodes[i].node, Fx::get().name)));
    if (it != by_name.end() && is_like(model_, tables, it->second, fx_nodes[i]))
      named[i] = it->second;
  }
  const std::size_t common = std::min(size, ids.size());
  std::size_t front = 0, back = 0;
  for (; front < common && is_like(model_, tables, ids[front], fx_nodes[front]); ++front)
    placed[front] = ids[front];
  for (; front + back < common &&
         is_like(model_, tables, ids[ids.size() - 1 - back], fx_nodes[size - 1 - back]);
       ++back)
    placed[size - 1 - back] = ids[ids.size() - 1 - back];

  // With equally many nodes nothing was inserted, and positions are more reliable than names.
  const auto found = size - std::count(named.begin(), named.end(), NodeId{});
  const bool by_names = ids.size() != size && found >= front + back;
  IdSet<Node> taken;
  for (const std::vector<NodeId>& chosen : {by_names ? named : placed, by_names ? placed : named})
    for (std::size_t i = 0; i < size; ++i) {
      const FxNode& fx_node = fx_nodes[i];
      const NodeId id = chosen[i];
      if (!id || tables.id_of(fx_node.node) || !taken.insert(id)) continue;
      tables.set_id(fx_node.node, id);
      // torch.fx does not copy marks. If the node has some, they are newer; the next read adopts
      // them.
      if (!fx::find(attributes_of(fx_node.node), Fx::get().marks))
        set_marks(fx_node.node, model_.graph()[id].marks);
    }
}

}  // namespace refx::fx
