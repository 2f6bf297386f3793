// SPDX-License-Identifier: Apache-2.0

#include "transforms/subgraph_sites.h"

#include <fmt/format.h>

#include <algorithm>

#include "book/higher_order.h"
#include "graph_json/subgraph.h"
#include "ops/names.h"
#include "ops/param.h"

namespace refx {

namespace {

using Construct = book::HigherOrder::Construct;

std::vector<NodeId> placeholders(const Graph& graph) {
  std::vector<NodeId> ids;
  for (NodeId id : graph)
    if (graph[id].op == Opcode::placeholder) ids.push_back(id);
  return ids;
}

std::string prefix(const Node& call, const Subgraph& subgraph) {
  return fmt::format("{}/{}/", node_path(call), subgraph.name);
}

// A branch or a loop with its subgraphs, read.
class ControlFlow {
 public:
  ControlFlow(const Model& model, NodeId id) : model_(model), id_(id) {
    const Node& node = model.graph()[id];
    auto call = book::higher_order(node);
    if (!call || call->kind == Construct::wrap) return;
    call_ = std::move(*call);
    try {
      for (std::size_t at : call_.subgraphs) subgraphs_.push_back(read_subgraph(node.args[at]));
    } catch (const Error&) {  // carried through as it is
      subgraphs_.clear();
    }
    varying_ = call_.carried.size() + call_.sliced.size();
    for (const Subgraph& subgraph : subgraphs_)
      inputs_.push_back(placeholders(subgraph.model.graph()));
    const bool fits = std::ranges::all_of(inputs_, [&](const auto& inputs) {
      return inputs.size() == varying_ + call_.fixed.size();
    });
    if (!fits) subgraphs_.clear();
  }

  const Node& node() const { return model_.graph()[id_]; }
  std::vector<Subgraph>& subgraphs() { return subgraphs_; }
  const book::HigherOrder& call() const { return call_; }
  std::size_t varying() const { return varying_; }  // inputs that differ from call to call

  // The subgraph as a model of its own: tensors that are stored, and that nobody else reads, are
  // its state. All others are inputs.
  Model bound(std::size_t k) const {
    Model body = subgraphs_[k].model;
    Editor editor(body);
    for (std::size_t i = 0; i < call_.fixed.size(); ++i) {
      const NodeId* operand = call_.fixed[i].get<NodeId>();
      if (!operand || !is_own(*operand, k, i)) continue;
      const NodeId id = inputs_[k][varying_ + i];
      Node input = body.graph()[id];
      input.state = model_.graph()[*operand].state;
      editor.add_state(model_.state()[model_.state().find(input.state)]);
      editor.set_node(id, std::move(input));
    }
    editor.commit_as_origin(model_.source());
    return body;
  }

 private:
  bool is_own(NodeId operand, std::size_t k, std::size_t i) const {
    const Graph& graph = model_.graph();
    const Node& node = graph[operand];
    const StateId state =
        node.op == Opcode::placeholder ? model_.state().find(node.state) : StateId{};
    if (!state || graph.num_uses(operand) != 1 || graph.num_readers(node.state) != 1 ||
        model_.state().storage_sharers(state) > 1 || is_mutated(model_, node.state))
      return false;
    for (std::size_t other = 0; other < subgraphs_.size(); ++other)
      if (other != k && subgraphs_[other].model.graph().num_users(inputs_[other][varying_ + i]) > 0)
        return false;
    return true;
  }

  const Model& model_;
  NodeId id_;
  book::HigherOrder call_;
  std::size_t varying_ = 0;
  std::vector<Subgraph> subgraphs_;
  std::vector<std::vector<NodeId>> inputs_;  // of each
};

// ---- applying ----------------------------------------------------------------------------------

// Where an input of the rewritten subgraph comes from.
struct Input {
  NodeId id;                       // in the subgraph
  std::optional<std::size_t> was;  // its position among the fixed operands; none: it is new
};

class Rewrite {
 public:
  Rewrite(Editor& editor, NodeId call, ControlFlow flow, std::size_t k, Model body)
      : editor_(editor), call_(call), flow_(std::move(flow)), k_(k), body_(std::move(body)) {}

  std::optional<Reason> run(const Transformation& transformation, const Site& site) {
    before_ = placeholders(body_.graph());
    Editor inner(body_);
    if (auto why = transformation.apply(inner, site)) return why;
    if (!inner.changed()) return std::nullopt;
    inner.commit({.transformation = transformation.name(),
                  .signature = transformation.signature(),
                  .site = site.name});
    if (auto why = find_inputs()) return why;
    move_state();
    write();
    erase_unread();
    return std::nullopt;
  }

 private:
  // Returns a reason if the call cannot have the inputs that the rewritten subgraph needs.
  std::optional<Reason> find_inputs() {
    const std::vector<NodeId> after = placeholders(body_.graph());
    for (std::size_t i = 0; i < after.size(); ++i) {
      const auto old = std::find(before_.begin(), before_.end(), after[i]);
      const auto position = static_cast<std::size_t>(old - before_.begin());
      if (i < flow_.varying()) {
        if (position != i) return because<ReasonId::stored_tensor_before_carried>();
        continue;
      }
      if (old == before_.end()) {
        if (body_.graph()[after[i]].state.empty())
          return because<ReasonId::subgraph_would_gain_input>();
        inputs_.push_back({after[i], std::nullopt});
      } else if (position < flow_.varying()) {
        return because<ReasonId::stored_tensor_before_carried>();
      } else {
        inputs_.push_back({after[i], position - flow_.varying()});
      }
    }
    if (after.size() < flow_.varying()) return because<ReasonId::subgraph_would_lose_input>();
    return std::nullopt;
  }

  // New and changed tensors of the subgraph become the model's.
  void move_state() {
    for (const Input& input : inputs_) {
      const Name& state = body_.graph()[input.id].state;
      if (input.was) {
        const Arg& operand = flow_.call().fixed[*input.was];
        if (!state.empty()) set_changed(*operand.get<NodeId>(), state);
        operands_.push_back(operand);
      } else {
        operands_.push_back(add(input.id, state));
      }
    }
    add_pieces();
  }

  void set_changed(NodeId outer, const Name& state) {
    const StateEntry& entry = body_.state()[body_.state().find(state)];
    const StateId id = editor_.state().find(state);
    if (entry.tensor.is_same(editor_.state().tensor(id))) return;
    editor_.set_state(id, entry.tensor);
    editor_.set_type(outer, type_of(entry.tensor));
    moved_[std::string(state)] = id;
  }

  NodeId add(NodeId input, const Name& state) {
    StateEntry entry = body_.state()[body_.state().find(state)];
    entry.name = editor_.state().fresh_name(entry.name);
    Node placeholder = body_.graph()[input];
    placeholder.name = placeholder.target = editor_.graph().fresh_name(placeholder.name);
    placeholder.state = entry.name;
    placeholder.marks.clear();
    NodeId last;
    for (NodeId id : editor_.graph())
      if (editor_.graph()[id].op == Opcode::placeholder && !editor_.graph()[id].state.empty())
        last = id;
    moved_[std::string(state)] = editor_.add_state(std::move(entry));
    return last ? editor_.insert_after(last, std::move(placeholder))
                : editor_.insert_before(editor_.graph().first(), std::move(placeholder));
  }

  // How new tensors are composed of the old ones, which both have under the same names.
  void add_pieces() {
    const auto outer = [&](StateId id) {
      const Step& step = body_.history().back();
      std::string name;
      if (const StateEntry* entry = body_.state().find(id)) name = entry->name;
      for (const Edit& edit : step.edits)
        if (const auto* change = std::get_if<Change<StateEntry>>(&edit);
            change && change->id == id && change->before)
          name = change->before->name;
      const auto moved = moved_.find(name);
      return moved != moved_.end() ? moved->second : editor_.state().find(name);
    };
    for (Piece piece : body_.history().back().pieces) {
      piece.whole = outer(piece.whole);
      if (piece.part) piece.part = outer(piece.part);
      editor_.add_piece(piece);
    }
  }

  void write() {
    Node node = flow_.node();
    flow_.subgraphs()[k_].model = unbound();
    for (std::size_t i = 0; i < flow_.subgraphs().size(); ++i) {
      if (i != k_) rearrange(flow_.subgraphs()[i]);
      node.args[flow_.call().subgraphs[i]] = write_subgraph(flow_.subgraphs()[i]);
    }
    if (node.args.back().is<Tuple>())
      node.args.back() = Tuple{operands_};
    else
      node.args.back() = List{operands_};
    editor_.set_node(call_, std::move(node));
  }

  // In a subgraph no input has a state: its operands do.
  Model unbound() {
    Model model = body_;
    forget(model);
    Editor editor(model);
    for (NodeId id : placeholders(model.graph())) {
      Node node = model.graph()[id];
      node.state = {};
      editor.set_node(id, std::move(node));
    }
    editor.commit_as_origin();
    return model;
  }

  // Another subgraph of the same call takes the same operands, and reads none of those that differ.
  void rearrange(Subgraph& other) {
    const std::vector<NodeId> old = placeholders(other.model.graph());
    Editor editor(other.model);
    NodeId last = flow_.varying() ? old[flow_.varying() - 1] : NodeId{};
    std::vector<bool> kept(old.size(), false);
    for (const Input& input : inputs_) {
      if (input.was) {
        last = old[flow_.varying() + *input.was];
        kept[flow_.varying() + *input.was] = true;
        continue;
      }
      Node node = body_.graph()[input.id];
      node.name = node.target = editor.graph().fresh_name(node.name);
      node.state = {};
      node.marks.clear();
      last = last ? editor.insert_after(last, std::move(node))
                  : editor.insert_before(editor.graph().first(), std::move(node));
    }
    for (std::size_t i = flow_.varying(); i < old.size(); ++i)
      if (!kept[i]) editor.erase_node(old[i]);
    editor.commit_as_origin();
  }

  void erase_unread() {
    for (const Arg& operand : flow_.call().fixed) {
      const NodeId* id = operand.get<NodeId>();
      if (!id || !editor_.graph().contains(*id) || editor_.graph().num_users(*id) > 0) continue;
      const std::string state(editor_.graph()[*id].state);
      if (state.empty() || editor_.graph()[*id].op != Opcode::placeholder) continue;
      editor_.erase_node(*id);
      if (editor_.graph().num_readers(state) == 0) editor_.erase_state(editor_.state().find(state));
    }
  }

  Editor& editor_;
  NodeId call_;
  ControlFlow flow_;
  std::size_t k_;
  Model body_;
  std::vector<NodeId> before_;  // inputs
  std::vector<Input> inputs_;   // those after the varying ones
  Args operands_;
  std::unordered_map<std::string, StateId> moved_;  // by name in the subgraph
};

}  // namespace

namespace {

// The sites of a subgraph, named as in the subgraph.
Findings find_inside(const Model& body, const Transformation& transformation, SiteNames& around) {
  Findings found = transformation.find(body);
  SiteNames(body, around).complete(found);
  return found;
}

// As the model around it has the site.
Site outer_site(const Site& inner, NodeId call, const std::string& prefix) {
  Site site{.name = prefix + inner.name, .nodes = {call}, .paths = inner.paths};
  for (const Name& path : inner.paths) site.paths.emplace_back(prefix + path);
  return site;
}

}  // namespace

Findings find_in_subgraphs(const Model& model, const Transformation& transformation,
                           SiteNames& names) {
  Findings all;
  for (NodeId id : model.graph()) {
    if (!book::is_higher_order(model.graph()[id])) continue;
    ControlFlow flow(model, id);
    for (std::size_t k = 0; k < flow.subgraphs().size(); ++k) {
      const std::string inside = prefix(flow.node(), flow.subgraphs()[k]);
      Findings found = find_inside(flow.bound(k), transformation, names);
      for (const Site& site : found.sites) all.sites.push_back(outer_site(site, id, inside));
      for (Refusal& refusal : found.refusals) {
        refusal.reason.nodes.clear();  // of the subgraph; outside, the call stands for them
        all.refusals.push_back({outer_site(refusal.site, id, inside), std::move(refusal.reason)});
      }
    }
  }
  return all;
}

bool is_in_subgraph(const Model& model, const Site& site) {
  if (site.nodes.size() != 1 || !model.graph().contains(site.nodes[0])) return false;
  const Node& node = model.graph()[site.nodes[0]];
  return book::is_higher_order(node) && site.name.starts_with(node_path(node) + "/");
}

std::optional<Reason> apply_in_subgraph(Editor& editor, const Transformation& transformation,
                                        const Site& site) {
  const NodeId id = site.nodes[0];
  ControlFlow flow(editor.model(), id);
  SiteNames names(editor.model());
  for (std::size_t k = 0; k < flow.subgraphs().size(); ++k) {
    const std::string inside = prefix(flow.node(), flow.subgraphs()[k]);
    if (!site.name.starts_with(inside)) continue;
    Model body = flow.bound(k);
    for (const Site& inner : find_inside(body, transformation, names).sites)
      if (inside + inner.name == site.name)
        return Rewrite(editor, id, std::move(flow), k, std::move(body)).run(transformation, inner);
  }
  return std::nullopt;
}

}  // namespace refx
