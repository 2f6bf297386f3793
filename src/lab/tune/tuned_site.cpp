// SPDX-License-Identifier: Apache-2.0

#include "lab/tune/tuned_site.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "ir/map_arg.h"
#include "lab/run/run_once.h"
#include "refx/error.h"
#include "refx/executor.h"
#include "refx/reverse.h"
#include "refx/text.h"
#include "util/fingerprint.h"

namespace refx {

namespace {

bool computes(const Node& node) {
  return node.op == Opcode::call_function || node.op == Opcode::call_method ||
         node.op == Opcode::call_module;
}

// ---- which sites belong together ---------------------------------------------------------------

class Groups {
 public:
  NodeId leader(NodeId id) {
    auto [it, is_new] = parents_.emplace(id, id);
    if (it->second == id) return id;
    return parents_[id] = leader(NodeId(it->second));
  }
  void join(NodeId a, NodeId b) { parents_[leader(a)] = leader(b); }

 private:
  std::unordered_map<NodeId, NodeId> parents_;
};

struct Group {
  std::vector<NodeId> nodes;  // in graph order
  std::string site;
  std::size_t size = 0;  // of that site
};

std::vector<Group> groups_of(const Model& model, const std::vector<TransformationPtr>& all,
                             FilterUse& filter) {
  Groups groups;
  std::vector<Site> sites;
  for (const TransformationPtr& transformation : all)
    for (Site& site : filter.find(model, *transformation).sites) {
      std::erase_if(site.nodes, [&](NodeId id) { return !computes(model.graph()[id]); });
      if (site.nodes.empty()) continue;
      for (NodeId id : site.nodes) groups.join(id, site.nodes[0]);
      sites.push_back(std::move(site));
    }
  std::map<NodeId, Group> by_leader;
  for (const Site& site : sites) {
    Group& group = by_leader[groups.leader(site.nodes[0])];
    group.nodes.insert(group.nodes.end(), site.nodes.begin(), site.nodes.end());
    if (site.nodes.size() <= group.size) continue;
    group.site = site.name;
    group.size = site.nodes.size();
  }
  std::vector<Group> result;
  const auto before = [&](NodeId a, NodeId b) { return model.graph().precedes(a, b); };
  for (auto& [leader, group] : by_leader) {
    std::sort(group.nodes.begin(), group.nodes.end(), before);
    group.nodes.erase(std::unique(group.nodes.begin(), group.nodes.end()), group.nodes.end());
    result.push_back(std::move(group));
  }
  std::sort(result.begin(), result.end(),
            [&](const Group& a, const Group& b) { return before(a.nodes[0], b.nodes[0]); });
  return result;
}

// ---- a part as a model -------------------------------------------------------------------------

class Extraction {
 public:
  Extraction(const Model& whole, const Group& group) : whole_(whole), editor_(result_.part) {
    result_.name = group.site;
    result_.core = group.nodes;
  }

  TunedSite run() {
    collect();
    for (NodeId id : outside_) add_outside(id);
    for (NodeId id : body_) add_inside(id);
    add_output();
    editor_.commit_as_origin(whole_.source());
    result_.key = fingerprint(key_);
    return std::move(result_);
  }

 private:
  void collect() {
    const Graph& graph = whole_.graph();
    std::set<NodeId> inside(result_.core.begin(), result_.core.end());
    for (NodeId id : result_.core)
      for (NodeId user : graph.users(id))
        if (computes(graph[user]) && inside.insert(user).second) users_.push_back(user);
    body_.assign(inside.begin(), inside.end());
    const auto before = [&](NodeId a, NodeId b) { return graph.precedes(a, b); };
    std::sort(body_.begin(), body_.end(), before);
    std::set<NodeId> seen;
    for (NodeId id : body_)
      for_each_input(graph[id], [&](NodeId input) {
        if (!inside.count(input) && seen.insert(input).second) outside_.push_back(input);
      });
    // Placeholders come before other nodes.
    std::stable_partition(outside_.begin(), outside_.end(),
                          [&](NodeId id) { return graph[id].op != Opcode::get_attr; });
  }

  // Tied entries come along, so that they stay tied.
  void add_state(StateId id) {
    const State& state = whole_.state();
    if (!state_.insert(id).second) return;
    const StateEntry& entry = state[id];
    editor_.add_state(entry);
    key_ += fmt::format("{} {} {} {}\n", to_string(entry.kind),
                        c10::toString(entry.tensor.scalar_type()), entry.tensor.sizes(),
                        entry.tensor.strides());
    if (state.storage_sharers(id) < 2) return;
    const auto storage = [&](StateId at) {
      return state.tensor(at).unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    };
    for (StateId other : state)
      if (storage(other) == storage(id)) add_state(other);
  }

  void add_outside(NodeId id) {
    const Node& node = whole_.graph()[id];
    Node copy = node;
    copy.marks.clear();
    if (const std::string_view name = bound_state(node); !name.empty()) {
      add_state(whole_.state().find(name));
    } else {
      copy = {.op = Opcode::placeholder, .name = node.name, .target = node.name, .type = node.type};
      result_.inputs.push_back(id);
    }
    insert(id, std::move(copy));
  }

  void add_inside(NodeId id) {
    Node copy = whole_.graph()[id];
    copy.marks.clear();
    map_arguments(copy, [&](const Arg& arg) {
      const auto* input = arg.get<NodeId>();
      return input ? Arg(inside_.at(*input)) : arg;
    });
    if (copy.op == Opcode::call_module) add_module(copy.target);
    insert(id, std::move(copy));
  }

  void add_module(const std::string& path) {
    if (editor_.modules().find(path)) return;
    const Module& module = whole_.modules()[whole_.modules().find(path)];
    editor_.add_module(module);
    key_ += fmt::format("module {} {}\n", module.type, module.training);
    for (const auto& [name, value] : module.parameters)
      key_ += fmt::format("{}={}\n", name, print(value, Graph()));
    for (StateId id : whole_.state())
      if (whole_.state()[id].name.starts_with(path + ".")) add_state(id);
  }

  void insert(NodeId id, Node node) {
    describe(node);
    inside_[id] = editor_.insert_before({}, std::move(node));
  }

  // The node without names: others by their positions.
  void describe(const Node& node) {
    Node plain = node;
    map_arguments(plain, [](const Arg& arg) {
      const auto* input = arg.get<NodeId>();
      return input ? Arg("%" + std::to_string(input->value)) : arg;
    });
    const bool named = node.op == Opcode::placeholder || node.op == Opcode::get_attr ||
                       node.op == Opcode::call_module;
    key_ += fmt::format("{} {}", static_cast<int>(node.op), named ? "" : node.target);
    for (const Arg& arg : plain.args) key_ += " " + print(arg, Graph());
    for (const auto& [name, arg] : plain.kwargs)
      key_ += fmt::format(" {}={}", name, print(arg, Graph()));
    key_ += node.type ? " : " + print(*node.type) + "\n" : "\n";
  }

  // The results: everything that is used elsewhere, or that nothing in the part uses.
  void add_output() {
    const Graph& graph = whole_.graph();
    Args results;
    const auto leaves = [&](NodeId id) {
      const std::vector<NodeId> users = graph.users(id);
      return users.empty() || std::any_of(users.begin(), users.end(),
                                          [&](NodeId user) { return !inside_.count(user); });
    };
    for (NodeId id : body_)
      if (leaves(id)) results.push_back(inside_.at(id));
    // A tensor that others read too must not be taken for one that only this part reads.
    for (NodeId id : outside_)
      if (!bound_state(graph[id]).empty() && leaves(id)) results.push_back(inside_.at(id));
    for (NodeId id : users_) result_.users.insert(inside_.at(id));
    key_ += fmt::format("returns {}\n", results.size());
    editor_.insert_before(
        {}, {.op = Opcode::output, .name = "output", .target = "output", .args = {Tuple{results}}});
  }

  const Model& whole_;
  TunedSite result_;
  Editor editor_;
  std::vector<NodeId> body_, outside_, users_;
  std::set<StateId> state_;
  std::unordered_map<NodeId, NodeId> inside_;
  std::string key_;
};

}  // namespace

std::vector<TunedSite> tuned_sites(const Model& model, const Model& form,
                                   const std::vector<TransformationPtr>& all, FilterUse& filter) {
  std::vector<TunedSite> sites;
  for (const Group& group : groups_of(model, all, filter))
    sites.push_back(Extraction(form, group).run());
  return sites;
}

std::vector<c10::IValue> values_of(const Model& model, const std::vector<NodeId>& nodes,
                                   const std::vector<c10::IValue>& inputs) {
  if (nodes.empty()) return {};
  Model copy = model;
  forget(copy);
  {
    Editor editor(copy);
    Node output = copy.graph()[copy.graph().output()];
    output.args = {Tuple{Args(nodes.begin(), nodes.end())}};
    editor.set_node(copy.graph().output(), std::move(output));
    editor.commit_as_origin(model.source(), std::vector<Mutation>());
  }
  const c10::IValue values = Executor(copy).run(copies(inputs));
  return values.toTupleRef().elements().vec();
}

}  // namespace refx
