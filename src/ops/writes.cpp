// SPDX-License-Identifier: Apache-2.0

#include "ops/writes.h"

#include <algorithm>

#include "book/call.h"
#include "book/facts.h"

namespace refx {

Writes::Writes(const Model& model) : graph_(model.graph()), parent_(model.graph().id_limit()) {
  std::vector<std::pair<NodeId, NodeId>> writes;    // written value, writer
  std::unordered_map<const void*, NodeId> readers;  // of a storage, the first
  for (NodeId id : graph_) {
    const Node& node = graph_[id];
    if (const Name& name = bound_state(node); !name.empty()) {
      const StateId state = model.state().find(name);
      if (!state || !model.state().tensor(state).has_storage()) continue;
      // A tensor with one reader and a storage of its own shares memory with nobody.
      if (graph_.is_only_reader(id) && model.state().storage_sharers(state) == 1) continue;
      const void* storage = model.state().tensor(state).storage().unsafeGetStorageImpl();
      join(id, readers.emplace(storage, id).first->second);
      continue;
    }
    const book::Effect effect = book::effect_of(model, node);
    if (!effect.views && !effect.writes_first && !effect.writes_all) continue;
    bool first = true;
    const bool first_only = book::views_first_only(model, node, effect);
    for_each_input(node, [&](NodeId input) {
      if (effect.views && (first || !first_only)) join(id, input);
      if (effect.writes_all || (effect.writes_first && first)) writes.emplace_back(input, id);
      first = false;
    });
  }
  // Only now: later joins change the root of a value that was written before.
  for (const auto& [value, writer] : writes) writers_[root(value)].push_back(writer);
}

NodeId Writes::root(NodeId node) const {
  NodeId top = node;
  while (parent_[top.value]) top = parent_[top.value];
  // Path compression: chains of views stay short.
  while (parent_[node.value]) node = std::exchange(parent_[node.value], top);
  return top;
}

void Writes::join(NodeId a, NodeId b) {
  if (a = root(a), b = root(b); a != b) parent_[a.value] = b;
}

bool Writes::between(NodeId value, NodeId first, NodeId last) const {
  auto it = writers_.find(root(value));
  if (it == writers_.end()) return false;
  const auto after_first = std::partition_point(
      it->second.begin(), it->second.end(),
      [&](NodeId writer) { return graph_.precedes(writer, first) || writer == first; });
  return after_first != it->second.end() && graph_.precedes(*after_first, last);
}

namespace {

// A view that only regroups the leading dimensions and splits the last one exists for a slice of
// columns too: some trailing sizes must multiply to the width.
bool splits_columns(const Node& view, std::int64_t width) {
  if (const Arg* dtype = argument(view, 1, "dtype"); dtype && dtype->is<c10::ScalarType>())
    return false;                   // another reading of the bits
  std::vector<std::int64_t> sizes;  // unknown: -1
  if (view.type) {
    for (const Dim& dim : view.type->sizes) sizes.push_back(dim.known() ? dim.value : -1);
  } else {
    auto add = [&](const Arg& arg) {
      sizes.push_back(arg.get<std::int64_t>() ? *arg.get<std::int64_t>() : -1);
    };
    for (std::size_t i = 1; i < view.args.size(); ++i) {
      if (const List* list = view.args[i].get<List>())
        for (const Arg& arg : list->items) add(arg);
      else if (const Tuple* tuple = view.args[i].get<Tuple>())
        for (const Arg& arg : tuple->items) add(arg);
      else
        add(view.args[i]);
    }
  }
  std::int64_t product = 1;
  for (auto it = sizes.rbegin(); it != sizes.rend() && *it > 0; ++it) {
    product *= *it;
    if (product == width) return true;
    if (product > width) return false;
  }
  return false;
}

}  // namespace

namespace {

// `width` is that of a slice of columns; without it, nothing is known of the strides.
bool tolerates(const Model& model, NodeId value, std::optional<std::int64_t> width) {
  const Graph& graph = model.graph();
  struct Seen {
    NodeId value;
    bool whole;            // still the slice itself, not a view of it
    bool ordered = false;  // put in order since, so that only writes matter
  };
  std::vector<Seen> queue{{value, true}};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (NodeId id : graph.users(queue[i].value)) {
      const Node& user = graph[id];
      if (user.op == Opcode::output) return false;
      const book::Effect effect = book::effect_of(model, user);
      if (effect.writes_first || effect.writes_all) return false;
      const book::Call call(model, user);
      const bool ordered = queue[i].ordered || call.is("contiguous");
      // An operator that needs strides, such as view, throws on a slice of columns.
      if (!ordered && (call.facts() & book::kNeedsStrides) &&
          !(width && queue[i].whole && call.is("view") && splits_columns(user, *width)))
        return false;
      if (effect.views) queue.push_back({id, false, ordered});
    }
  }
  return true;
}

}  // namespace

bool tolerates_column_slice(const Model& model, NodeId value, std::int64_t width) {
  return tolerates(model, value, width);
}

bool tolerates_strides(const Model& model, NodeId value) {
  return tolerates(model, value, std::nullopt);
}

}  // namespace refx
