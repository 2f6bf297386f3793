// SPDX-License-Identifier: Apache-2.0

#include "engine/compare.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "engine/marks.h"
#include "engine/paths.h"
#include "engine/values.h"
#include "refx/editor.h"
#include "refx/error.h"
#include "refx/id_set.h"
#include "refx/validate.h"

namespace refx::fx {

namespace {

std::string names_of(const std::vector<Edit>& edits) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> names;
  for (const Edit& edit : edits)
    std::visit(
        [&](const auto& change) {
          names.push_back((change.after ? change.after : change.before)->name);
        },
        edit);
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) text += (i ? "," : "") + names[i];
  if (names.size() > kShown) text += fmt::format(",... ({} in all)", names.size());
  return text;
}

// Marks are a set in Python, so their order means nothing.
bool have_same(const std::vector<Name>& sorted, std::vector<Name> marks) {
  std::sort(marks.begin(), marks.end());
  return sorted == marks;
}

bool is_unchanged(const Node& node, const Tables& tables, NodeId id, const FxNode& fx_node,
                  py::handle meta) {
  if (node.op != fx_node.op &&
      !(fx_node.op == Opcode::get_attr && node.target.starts_with(kOpaqueAttr)))
    return false;
  if (!is_as_remembered(tables, id, fx_node, meta)) return false;
  const std::vector<Name> marks = marks_of(fx_node.node);
  return marks.size() == node.marks.size() && (marks.empty() || have_same(marks, node.marks));
}

class Comparison {
 public:
  Comparison(Model& model, Tables& tables, const Survey& survey, bool by_others)
      : model_(model),
        tables_(tables),
        survey_(survey),
        values_(model, tables, survey),
        by_others_(by_others) {}

  StepId run(const Mirror::Author& author) {
    Editor editor(model_);
    Renumbered renumbered;
    // Tensors and modules first: nodes refer to them. Missing nodes are erased last, because nodes
    // that stay may have used them until they were compared.
    try {
      compare_states(editor);
      compare_modules(editor);
      compare_nodes(editor, renumbered);
      erase_missing(editor);
      if (const auto found = problems(model_, editor.edits()); !found.empty())
        throw Error("the GraphModule is broken: " + found.front());
    } catch (...) {
      // The editor rolls the model back by itself. The tables are not part of the model.
      for (const auto& [fx_node, before] : renumbered)
        if (before)
          tables_.set_id(fx_node->node, before);
        else
          tables_.drop_id(fx_node->node);
      throw;
    }
    for (NodeId id : gone_) {
      const py::object node = tables_.node(id);
      if (tables_.id_of(node) == id) tables_.drop_id(node);
    }
    for (const auto& [fx_node, id] : reread_)
      values_.remember(id, *fx_node, attr(fx_node->node, Fx::get().meta));
    const StepId step = editor.commit({.transformation = author.transformation,
                                       .signature = author.signature,
                                       .site = names_of(editor.edits()),
                                       .numerics = author.numerics});
    adopt_learnt();
    return step;
  }

 private:
  // Nodes that got a new id, each with its former id, or none.
  using Renumbered = std::vector<std::pair<const FxNode*, NodeId>>;

  void compare_states(Editor& editor) {
    StateId previous;
    for (const FoundState& found : survey_.states) {
      StateId id = found.id;
      if (!id) {
        const StateId where = previous ? model_.state().next(previous) : model_.state().first();
        id = editor.insert_before(where, values_.entry_of(found));
      } else {
        const StateEntry& entry = model_.state()[id];
        if (entry.kind != found.kind || entry.persistent != found.persistent ||
            !entry.tensor.is_same(THPVariable_Unpack(found.tensor)))
          editor.set_state(id, values_.entry_of(found));
      }
      live_states_.insert(id);
      previous = id;
    }
  }

  void compare_modules(Editor& editor) {
    ModuleId previous;
    for (const FoundModule& found : survey_.modules) {
      Module module = values_.module_of(found);
      ModuleId id = model_.modules().find(found.path);
      if (!id && is_emptied(found)) continue;
      if (!id) {
        const ModuleId where =
            previous ? model_.modules().next(previous) : model_.modules().first();
        id = editor.insert_before(where, std::move(module));
      } else if (!(model_.modules()[id] == module)) {
        editor.set_module(id, std::move(module));
      }
      live_modules_.insert(id);
      previous = id;
    }
  }

  // Whether the module is not new, but an empty container that lost its contents, to a step or just
  // now. Such a module is not a leaf of the model.
  bool is_emptied(const FoundModule& found) {
    if (survey_.called.find(found.path)) return false;
    if (!holders_) {
      holders_.emplace(model_);
      for (const Step& step : model_.history()) holders_->add(step);
    }
    return holders_->contains(found.path);
  }

  void compare_nodes(Editor& editor, Renumbered& renumbered) {
    const Graph& graph = model_.graph();
    NodeId previous;
    // Users of nodes that got a new id. torch.fx did not touch their arguments, so they look
    // unchanged, but in the model they must refer to the new id.
    std::unordered_set<PyObject*> disturbed;
    for (const FxNode& fx_node : survey_.nodes) {
      const py::object meta = attr(fx_node.node, Fx::get().meta);
      // Usually the node follows the previous one, as in the model: then no lookup is needed.
      const NodeId next = previous ? graph.next(previous) : graph.first();
      const bool is_next = next && tables_.node(next).is(fx_node.node);
      const NodeId former = is_next ? next : tables_.id_of(fx_node.node);
      NodeId id = former;
      // A node that was moved backwards gets a new id: ids do not change their order in the model.
      const bool known =
          is_next || (id && graph.contains(id) && (!previous || graph.precedes(previous, id)));
      if (known && !disturbed.count(fx_node.node.ptr()) &&
          is_unchanged(graph[id], tables_, id, fx_node, meta)) {
        visited_.insert(id);
        previous = id;
        continue;
      }
      Node node = values_.node_of(fx_node, meta);
      if (known) {
        visited_.insert(id);
        const Node& old = graph[id];
        // Not rewrites, and kept out of the comparison: the name, which torch.fx may change, and
        // what became known about the value since.
        node.name = old.name;
        TypePtr type = std::exchange(node.type, old.type);
        MetaPtr place = std::exchange(node.meta, old.meta);
        std::vector<Name> marks = std::exchange(node.marks, old.marks);
        if (have_same(marks, old.marks)) marks = old.marks;
        const bool learnt = (type && (!old.type || *type != *old.type)) || (place && !old.meta) ||
                            (by_others_ && marks != old.marks);
        if (learnt)
          learnt_.push_back({id, type ? type : old.type, old.meta ? old.meta : place, marks});
        const bool marked = !by_others_ && marks != old.marks;
        if (!(node == old)) editor.set_node(id, std::move(node));
        if (marked) editor.set_marks(id, std::move(marks));
      } else {
        const NodeId where = previous ? graph.next(previous) : graph.first();
        id = editor.insert_before(where, std::move(node));
        visited_.insert(id);
        renumbered.emplace_back(&fx_node, former);
        tables_.set_id(fx_node.node, id);
        if (former)
          for (py::handle user : attr(fx_node.node, Fx::get().users)) disturbed.insert(user.ptr());
      }
      reread_.emplace_back(&fx_node, id);
      previous = id;
    }
  }

  void erase_missing(Editor& editor) {
    std::vector<NodeId> nodes;
    for (NodeId id : model_.graph())
      if (!visited_.contains(id)) nodes.push_back(id);
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {  // users before what they use
      editor.erase_node(*it);
      gone_.push_back(*it);
    }
    std::vector<StateId> states;
    for (StateId id : model_.state())
      if (!live_states_.contains(id)) states.push_back(id);
    for (StateId id : states) editor.erase_state(id);
    std::vector<ModuleId> modules;
    for (ModuleId id : model_.modules())
      if (!live_modules_.contains(id)) modules.push_back(id);
    for (ModuleId id : modules) editor.erase_module(id);
  }

  // Types, metadata and marks that became known are adopted without a step: nobody would want to
  // reverse that. After the commit, so that they are not part of the author's step.
  void adopt_learnt() {
    if (learnt_.empty()) return;
    Editor quiet(model_);
    for (auto& [id, type, meta, marks] : learnt_) {
      Node node = model_.graph()[id];
      node.type = std::move(type);
      node.meta = std::move(meta);
      quiet.set_node(id, std::move(node));
      quiet.set_marks(id, std::move(marks));
    }
    quiet.commit_without_step();
  }

  Model& model_;
  Tables& tables_;
  const Survey& survey_;
  Values values_;
  bool by_others_;

  std::optional<Holders> holders_;  // with those whose contents steps took, once asked for
  IdSet<StateEntry> live_states_;
  IdSet<Module> live_modules_;
  IdSet<Node> visited_;
  std::vector<NodeId> gone_;
  std::vector<std::pair<const FxNode*, NodeId>> reread_;
  struct Learnt {
    NodeId id;
    TypePtr type;
    MetaPtr meta;
    std::vector<Name> marks;
  };
  std::vector<Learnt> learnt_;
};

}  // namespace

bool has_same_nodes(const Model& model, const Tables& tables, py::handle graph) {
  const Fx& fx = Fx::get();
  const py::object root = attr(graph, fx.root);
  NodeId id = model.graph().first();
  for (py::object at = attr(root, fx.next); !at.is(root); id = model.graph().next(id)) {
    if (!id || id.value >= tables.seen.size() || !tables.node(id).is(at)) return false;
    py::object next = attr(at, fx.next);
    const Opcode op = to_opcode(peek(at, fx.op));
    const FxNode fx_node{std::move(at), op};
    if (!is_unchanged(model.graph()[id], tables, id, fx_node, peek(fx_node.node, fx.meta)))
      return false;
    at = std::move(next);
  }
  return !id;
}

StepId compare(Model& model, Tables& tables, const Survey& survey, const Mirror::Author& author) {
  const bool by_others = author.transformation == Mirror::kOthers;
  return Comparison(model, tables, survey, by_others).run(author);
}

}  // namespace refx::fx
