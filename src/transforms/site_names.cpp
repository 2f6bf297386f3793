// SPDX-License-Identifier: Apache-2.0

#include "transforms/site_names.h"

#include <algorithm>

#include "book/higher_order.h"
#include "graph_json/subgraph.h"
#include "ops/names.h"

namespace refx {

namespace {

template <class T>
void add_new(std::vector<T>& to, T value) {
  if (std::find(to.begin(), to.end(), value) == to.end()) to.push_back(std::move(value));
}

// As it is, and without the numbers of calls.
void add_node_path(std::vector<Name>& to, const Node& node) {
  const std::string path = node_path(node);
  add_new(to, Name(path));
  if (path.find('@') != path.npos) add_new(to, Name(without_call_numbers(path)));
}

void add_all(std::vector<Name>& to, const Origin& origin) {
  for (const Name& name : origin.tensors) add_new(to, name);
  for (const Name& name : origin.nodes) {
    add_new(to, name);
    if (const auto dot = name.rfind('.'); dot != name.npos) add_new(to, Name(name.substr(dot + 1)));
    if (name.find('@') != name.npos) add_new(to, Name(without_call_numbers(name)));
  }
}

bool is_within(std::string_view path, std::string_view module) {
  return module.empty() || path == module ||
         (path.starts_with(module) && path[module.size()] == '.');
}

// A tensor of the root, or one that torch.export lifted out of the code, belongs to no layer.
bool is_of_layer(const Name& tensor) { return tensor.find('.') != Name::npos; }

// The layers that something stands for which a step has made. `own` is the layer that it belongs to
// now: one that took in others keeps its name, one that was merged from several has those of all.
std::vector<std::string> owners_of(const Origin& origin, std::string_view own) {
  std::vector<std::string> owners;
  for (const Name& name : origin.tensors)
    if (is_of_layer(name)) add_new(owners, std::string(owner_path(name)));
  if (owners.empty())
    for (const Name& name : origin.nodes)
      if (name.find('.') != Name::npos) add_new(owners, without_call_numbers(owner_path(name)));
  if (std::find(owners.begin(), owners.end(), own) != owners.end()) return {std::string(own)};
  return owners;
}

}  // namespace

const Origins& SiteNames::origins() {
  if (!origins_) origins_.emplace(model_.history());
  return *origins_;
}

const Origin* SiteNames::origin_of_state(const Name& name) {
  if (around_) return around_->origin_of_state(name);
  const StateId id = model_.state().find(name);
  return id ? origins().of(id) : nullptr;
}

void SiteNames::add_paths(NodeId id, std::vector<Name>& to) {
  const Node& node = model_.graph()[id];
  add_new(to, node.name);
  add_node_path(to, node);
  if (const Origin* origin = origins().of(id)) add_all(to, *origin);
  if (node.op == Opcode::call_module) {
    add_new(to, Name(node.target + "." + node.name));
    const ModuleId module = model_.modules().find(node.target);
    if (const Origin* origin = module ? origins().of(module) : nullptr) add_all(to, *origin);
  }
  for_each_input(node, [&](NodeId input) {
    const Name& state = bound_state(model_.graph()[input]);
    if (state.empty()) return;
    add_new(to, state);
    if (const Origin* origin = origin_of_state(state)) add_all(to, *origin);
  });
  for (const Arg& arg : node.args) {
    if (!is_subgraph(arg)) continue;
    try {
      const Subgraph subgraph = read_subgraph(arg);
      for (NodeId inner : subgraph.model.graph()) add_node_path(to, subgraph.model.graph()[inner]);
    } catch (const Error&) {  // carried through as it is
    }
  }
}

void SiteNames::add_paths(const Step& step, std::vector<Name>& to) {
  add_new(to, step.site);
  add_all(to, origins().of(step.id));
}

// The layers that own a tensor: where a step has made it, those that it stands for.
std::vector<std::string> SiteNames::owners_of(const StateEntry& entry) {
  if (const Origin* origin = origin_of_state(entry.name))
    if (auto owners = refx::owners_of(*origin, owner_path(entry.name)); !owners.empty())
      return owners;
  if (!is_of_layer(entry.name)) return {};
  return {std::string(owner_path(entry.name))};
}

// The layers whose tensors the node reads.
std::vector<std::string> SiteNames::layers_of(NodeId id) {
  const Node& node = model_.graph()[id];
  if (node.op == Opcode::call_module) {
    const ModuleId module = model_.modules().find(node.target);
    if (const Origin* origin = module ? origins().of(module) : nullptr)
      if (auto owners = refx::owners_of(*origin, node.target); !owners.empty()) return owners;
    return {std::string(node.target)};
  }
  std::vector<std::string> layers;
  const std::string traced_in = without_call_numbers(module_path(node));
  for_each_input(node, [&](NodeId input) {
    const Name& state = bound_state(model_.graph()[input]);
    const StateId found = state.empty() ? StateId{} : model_.state().find(state);
    if (!found) return;
    for (const std::string& owner : owners_of(model_.state()[found])) {
      // A tied weight has the name of another layer.
      const bool tied = !origin_of_state(state) && !is_within(owner, traced_in);
      add_new(layers, tied ? traced_in : owner);
    }
  });
  return layers;
}

// Whether nodes other than these read tensors of the layer, or call it.
bool SiteNames::is_read_elsewhere(const std::string& layer, const std::vector<NodeId>& sorted) {
  if (!tensors_) {
    tensors_.emplace();
    for (StateId id : model_.state())
      for (const std::string& owner : owners_of(model_.state()[id]))
        (*tensors_)[owner].push_back(model_.state()[id].name);
  }
  const Graph& graph = model_.graph();
  const auto is_other = [&](NodeId id) {
    return graph[id].op != Opcode::output &&
           !std::ranges::binary_search(sorted, id.value, {}, &NodeId::value);
  };
  for (NodeId caller : graph.callers(layer))
    if (is_other(caller)) return true;
  const auto tensors = tensors_->find(layer);
  if (tensors == tensors_->end()) return false;
  for (const Name& tensor : tensors->second)
    for (NodeId reader : graph.readers(tensor))
      for (NodeId user : graph.users(reader))
        if (is_other(user)) return true;
  return false;
}

// "fc" for a site that has all of a layer, "fc.linear_1" for a part of one or one of several calls,
// and "encoder.0.div" for nodes that read no layer's tensors.
std::string SiteNames::name_of(const Site& site) {
  std::vector<NodeId> sorted = site.nodes;
  std::ranges::sort(sorted, {}, &NodeId::value);
  std::vector<Name> names;
  std::unordered_set<Name> seen;  // a site may have as many layers as the model
  for (NodeId id : site.nodes)
    for (const std::string& layer : layers_of(id)) {
      const bool in_part = is_read_elsewhere(layer, sorted);
      Name name(in_part ? layer + "." + model_.graph()[id].name : layer);
      if (seen.insert(name).second) names.push_back(std::move(name));
    }
  return names.empty() ? node_path(model_.graph()[site.nodes[0]]) : joined_paths(names);
}

void SiteNames::complete(Findings& findings) {
  const auto fill_in = [&](Site& site) {
    if (site.name.empty()) site.name = name_of(site);
    std::unordered_set<Name> seen(site.paths.begin(), site.paths.end());
    for (NodeId id : site.nodes) {
      std::vector<Name> paths;
      add_paths(id, paths);
      for (Name& path : paths)
        if (seen.insert(path).second) site.paths.push_back(std::move(path));
    }
  };
  for (Site& site : findings.sites) fill_in(site);
  for (Refusal& refusal : findings.refusals) fill_in(refusal.site);
  make_unique(findings);
}

// Long names are shortened, and sites may overlap: those that are called the same get the name of a
// node, too.
void SiteNames::make_unique(Findings& findings) const {
  std::unordered_map<Name, std::size_t> counts;
  const auto for_each_site = [&](auto&& f) {
    for (Site& site : findings.sites) f(site);
    for (Refusal& refusal : findings.refusals) f(refusal.site);
  };
  for_each_site([&](const Site& site) { ++counts[site.name]; });
  for_each_site([&](Site& site) {
    if (counts[site.name] < 2) return;
    const std::string name = site.name + "." + model_.graph()[site.nodes[0]].name;
    std::string unique = name;
    for (int i = 2; counts.contains(Name(unique)); ++i) unique = name + "@" + std::to_string(i);
    counts.emplace(Name(unique), 1);
    site.name = unique;
  });
}

}  // namespace refx
