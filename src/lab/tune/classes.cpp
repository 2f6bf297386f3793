// SPDX-License-Identifier: Apache-2.0

#include "lab/tune/classes.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "lab/run/run_once.h"
#include "refx/text.h"
#include "transforms/apply.h"
#include "util/fingerprint.h"

namespace refx {

namespace {

using Moves = std::vector<std::string>;

struct Owner {
  const TunedSite* site;
  const Moves* moves;
};
using Owners = std::unordered_map<NodeId, Owner>;  // of the nodes of tuned sites

// Applies the transformation to all sites whose next move it is.
void apply_at(Picked& picked, const Transformation& t, const SiteFilter& filter, std::size_t depth,
              Owners& owners) {
  const auto accept = [&](const Site& site) {
    bool any = false;
    for (NodeId id : site.nodes) {
      const auto owner = owners.find(id);
      if (owner == owners.end()) continue;
      const Moves& moves = *owner->second.moves;
      if (depth >= moves.size() || moves[depth] != t.name()) return false;
      any = true;
    }
    return any && filter.accepts(site);
  };
  apply_sites(picked.model, t, accept, [&](const Site& site, StepId id) {
    Owner owner{};
    for (NodeId node : site.nodes)
      if (const auto it = owners.find(node); it != owners.end()) owner = it->second;
    for (NodeId node : picked.model.history()[id].nodes) owners.emplace(node, owner);
    picked.steps[owner.site].insert(id);
  });
}

}  // namespace

bool Class::any_picked() const {
  return std::any_of(picks.begin(), picks.end(), [](int pick) { return pick >= 0; });
}

namespace {

std::string exact_type(const c10::IValue& value) {
  if (!value.isTensor()) return type_of_value(value) + ";";
  return fmt::format("{} {};", type_of_value(value), value.toTensor().strides());
}

// The types of inputs whose types are not in the graph, from a run.
std::map<NodeId, std::string> missing_types(const std::vector<TunedSite>& sites, const Model& form,
                                            const std::vector<c10::IValue>& inputs) {
  std::map<NodeId, std::string> types;
  for (const TunedSite& site : sites)
    for (NodeId id : site.inputs)
      if (!form.graph()[id].type) types[id];
  std::vector<NodeId> nodes;
  for (const auto& [id, type] : types) nodes.push_back(id);
  const std::vector<c10::IValue> values = values_of(form, nodes, inputs);
  for (std::size_t i = 0; i < nodes.size(); ++i) types[nodes[i]] = exact_type(values[i]);
  return types;
}

// One run of the model gives the values for all classes.
void take_values(std::vector<Class>& classes, const Model& form,
                 const std::vector<c10::IValue>& inputs) {
  std::vector<NodeId> nodes;
  for (const Class& c : classes)
    nodes.insert(nodes.end(), c.sites[0]->inputs.begin(), c.sites[0]->inputs.end());
  std::vector<c10::IValue> values = values_of(form, nodes, inputs);
  auto next = values.begin();
  for (Class& c : classes) {
    const auto end = next + static_cast<std::ptrdiff_t>(c.sites[0]->inputs.size());
    c.values.assign(next, end);
    next = end;
    // Symbolic sizes have other values in other runs: trials are for the exact sizes.
    std::string key = c.sites[0]->key;
    for (const c10::IValue& value : c.values) key += exact_type(value);
    c.result.key = fingerprint(key);
  }
}

}  // namespace

std::vector<Class> classes_of(const std::vector<TunedSite>& sites, const Model& form,
                              const std::vector<c10::IValue>& inputs) {
  std::vector<Class> classes;
  const auto types = missing_types(sites, form, inputs);
  std::map<std::string, std::size_t> positions;
  for (const TunedSite& site : sites) {
    std::string key = site.key;
    for (NodeId id : site.inputs)
      if (const auto it = types.find(id); it != types.end()) key += it->second;
    const auto [it, is_new] = positions.emplace(key, classes.size());
    if (is_new) classes.emplace_back();
    classes[it->second].sites.push_back(&site);
    classes[it->second].result.sites.push_back(site.name);
  }
  take_values(classes, form, inputs);
  return classes;
}

Picked with_picks(const Model& start, const std::vector<Class>& classes,
                  const std::vector<TransformationPtr>& all, const SiteFilter& filter,
                  const Class* only) {
  Picked picked{start, {}};
  Owners owners;
  std::set<std::pair<std::size_t, std::string>> wanted;  // by depth
  for (const Class& c : classes)
    for (std::size_t i = 0; i < c.picks.size(); ++i) {
      if (c.picks[i] < 0 || (only && only != &c)) continue;
      const Moves& moves = c.result.trials[static_cast<std::size_t>(c.picks[i])].moves;
      for (std::size_t depth = 0; depth < moves.size(); ++depth)
        wanted.emplace(depth, moves[depth]);
      for (NodeId id : c.sites[i]->core) owners[id] = {c.sites[i], &moves};
    }
  const std::size_t longest = wanted.empty() ? 0 : wanted.rbegin()->first + 1;
  for (std::size_t depth = 0; depth < longest; ++depth)
    for (const TransformationPtr& t : all)
      if (wanted.contains({depth, t->name()})) apply_at(picked, *t, filter, depth, owners);
  return picked;
}

}  // namespace refx
