// SPDX-License-Identifier: Apache-2.0

// Before:   a = f(x, 2)   …   b = f(x, 2)   …
// After:    a = f(x, 2)                     the users of b read a
// Refuses:  random numbers; functions, modules and operators that refx does not know; memory of x,
//           a or b that may be written in place; results of the model that would become one tensor
//           or share memory; values in different modules whose calls are preserved
// Numerics: identical

#include <c10/util/hash.h>

#include <unordered_map>

#include "book/call.h"
#include "ir/map_arg.h"
#include "ops/names.h"
#include "ops/sharing.h"
#include "refx/transforms.h"

namespace refx {

namespace {

bool is_call(const Node& node) {
  return node.op == Opcode::call_function || node.op == Opcode::call_method ||
         node.op == Opcode::call_module;
}

// A function that refx does not know may change how those after it work: autocast, gradients.
bool may_change_the_mode(const Node& node) {
  if (node.op != Opcode::call_function) return false;
  const book::Entry& entry = book::look_up(node);
  return !entry.parts.is_op() && entry.effect.writes_all;
}

// Finds for each value the first that equals it, whoever reads it. Values are numbered by the first
// of their kind, so that what is computed of equal values is equal.
class Values {
 public:
  explicit Values(const Graph& graph) : graph_(graph) {}

  // The first call that is the same as this; no id if it is the first itself.
  NodeId first_equal(NodeId id) {
    const Node& node = graph_[id];
    if (may_change_the_mode(node)) ++mode_;
    if (node.op == Opcode::get_attr) {
      const NodeId first = tensors_.emplace(node.target, id).first->second;
      if (first != id) numbers_[id] = first;
      return {};
    }
    if (!is_call(node)) return {};
    Key key{&node, mode_, args_of(node), kwargs_of(node)};
    const auto [it, added] = calls_.try_emplace(std::move(key), id);
    return added ? NodeId{} : it->second;
  }
  void are_equal(NodeId id, NodeId first) { numbers_[id] = first; }

 private:
  struct Key {
    const Node* node;
    std::size_t mode;
    Args args;
    Kwargs kwargs;
    bool operator==(const Key& other) const {
      return node->op == other.node->op && node->target == other.node->target &&
             mode == other.mode && args == other.args && kwargs == other.kwargs &&
             same_type(node->type, other.node->type);
    }
    static bool same_type(const TypePtr& a, const TypePtr& b) { return a && b ? *a == *b : a == b; }
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      std::size_t hash = std::hash<std::string>{}(key.node->target);
      for (const Arg& arg : key.args) add(hash, arg);
      for (const auto& [name, arg] : key.kwargs) add(hash, arg);
      return hash;
    }
    static void add(std::size_t& hash, const Arg& arg) {
      auto mix = [&](const auto& value) {
        hash = c10::hash_combine(hash, std::hash<std::remove_cvref_t<decltype(value)>>{}(value));
      };
      auto all = [&](const Args& args) {
        mix(args.size());
        for (const Arg& item : args) add(hash, item);
      };
      mix(arg.value().index());
      if (const auto* id = arg.get<NodeId>()) mix(*id);
      if (const auto* number = arg.get<std::int64_t>()) mix(*number);
      if (const auto* number = arg.get<double>()) mix(*number);
      if (const auto* text = arg.get<std::string>()) mix(*text);
      if (const auto* size = arg.get<SymInt>()) mix(size->expr);
      if (const auto* raw = arg.get<Raw>()) mix(raw->text);
      if (const auto* list = arg.get<List>()) all(list->items);
      if (const auto* tuple = arg.get<Tuple>()) all(tuple->items);
      if (const auto* slice = arg.get<Slice>()) all(slice->parts);
    }
  };

  Arg numbered(const Arg& arg) const {
    return map_inputs(arg, [&](NodeId id) -> Arg {
      const auto it = numbers_.find(id);
      return it == numbers_.end() ? id : it->second;
    });
  }
  Args args_of(const Node& node) const {
    Args result;
    for (const Arg& arg : node.args) result.push_back(numbered(arg));
    return result;
  }
  Kwargs kwargs_of(const Node& node) const {
    Kwargs result;
    for (const auto& [name, arg] : node.kwargs) result.emplace_back(name, numbered(arg));
    return result;
  }

  const Graph& graph_;
  std::size_t mode_ = 0;
  std::unordered_map<NodeId, NodeId> numbers_;  // of those that have an equal before them
  std::unordered_map<std::string_view, NodeId> tensors_;
  std::unordered_map<Key, NodeId, Hash> calls_;
};

// Why the two calls may give different values, or what they gave may differ later.
std::optional<Reason> why_not_equal(const Model& model, NodeId id, NodeId first,
                                    const Sharing& sharing) {
  const Graph& graph = model.graph();
  if (auto why = book::why_not_repeatable(model, graph[id])) return why;
  bool written = false;
  for (NodeId one : {id, first}) {
    written = written || sharing.is_written(one);
    for_each_input(graph[one],
                   [&](NodeId input) { written = written || sharing.is_written(input); });
  }
  if (written) return because<ReasonId::input_or_result_written>();
  return std::nullopt;
}

Site site_of(const Graph& graph, std::vector<NodeId> nodes) {
  std::vector<Name> names;
  for (NodeId id : nodes) names.emplace_back(node_path(graph[id]));
  return {.name = joined_paths(names), .nodes = std::move(nodes)};
}

}  // namespace

Findings MergeEqualNodes::find(const Model& model) const {
  const Graph& graph = model.graph();
  Findings findings;
  Values values(graph);
  std::optional<Sharing> sharing;
  std::vector<std::vector<NodeId>> groups;
  std::unordered_map<NodeId, std::size_t> group_of;  // the first -> its group
  for (NodeId id : graph) {
    const NodeId first = values.first_equal(id);
    if (!first) continue;
    if (!sharing) sharing.emplace(model);
    std::optional<Reason> reason = why_not_equal(model, id, first, *sharing);
    if (!reason) {
      values.are_equal(id, first);
      reason = why_not_across_modules(model, id, first);
    }
    if (!reason) reason = sharing->why_not(id, first);
    if (reason) {
      findings.add(site_of(graph, {first, id}), std::move(reason));
      continue;
    }
    sharing->replace(id, first);
    const auto [it, added] = group_of.emplace(first, groups.size());
    if (added) groups.push_back({first});
    groups[it->second].push_back(id);
  }
  for (auto& group : groups) findings.sites.push_back(site_of(graph, std::move(group)));
  return findings;
}

std::optional<Reason> MergeEqualNodes::apply(Editor& editor, const Site& site) const {
  for (std::size_t i = 1; i < site.nodes.size(); ++i) {
    const NodeId id = site.nodes[i];
    std::vector<NodeId> read;
    for_each_input(editor.graph()[id], [&](NodeId input) { read.push_back(input); });
    editor.replace_uses(id, site.nodes[0]);
    editor.erase_node(id);
    for (NodeId input : read)
      if (const Node* node = editor.graph().find(input);
          node && node->op == Opcode::get_attr && editor.graph().num_users(input) == 0)
        editor.erase_node(input);
  }
  return std::nullopt;
}

}  // namespace refx
