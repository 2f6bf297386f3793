// SPDX-License-Identifier: Apache-2.0

#include "lab/tune/classes.h"

#include <algorithm>

#include "transforms/apply.h"

namespace refx {

namespace {

using Moves = std::vector<std::string>;

struct Owner {
  const Place* place;
  const Moves* moves;
};
using Owners = std::unordered_map<NodeId, Owner>;  // of the nodes of places

// The transformation at all places whose next move it is.
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
    picked.steps[owner.place].insert(id);
  });
}

}  // namespace

bool Class::any_picked() const {
  return std::any_of(picks.begin(), picks.end(), [](int pick) { return pick >= 0; });
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
      for (NodeId id : c.places[i]->core) owners[id] = {c.places[i], &moves};
    }
  const std::size_t longest = wanted.empty() ? 0 : wanted.rbegin()->first + 1;
  for (std::size_t depth = 0; depth < longest; ++depth)
    for (const TransformationPtr& t : all)
      if (wanted.contains({depth, t->name()})) apply_at(picked, *t, filter, depth, owners);
  return picked;
}

}  // namespace refx
