// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/origins.h"
#include "refx/transformation.h"

namespace refx {

// Names sites by the modules that they belong to, and says which paths a filter matches there. It
// reads the model's history: a layer keeps its name when a step has replaced it.
class SiteNames {
 public:
  explicit SiteNames(const Model& model) : SiteNames(model, nullptr) {}
  // Of a subgraph: its tensors have the names that they have in the model around it.
  SiteNames(const Model& body, SiteNames& around) : SiteNames(body, &around) {}

  // Fills in the names and paths of everything that was found.
  void complete(Findings& findings);

  // The paths of a node, as Site::paths has them; and those of a step that was applied.
  void add_paths(NodeId node, std::vector<Name>& to);
  void add_paths(const Step& step, std::vector<Name>& to);

 private:
  SiteNames(const Model& model, SiteNames* around) : model_(model), around_(around) {}

  std::string name_of(const Site& site);
  void make_unique(Findings& findings) const;
  std::vector<std::string> layers_of(NodeId node);
  std::vector<std::string> owners_of(const StateEntry& entry);
  bool is_read_elsewhere(const std::string& layer, const std::vector<NodeId>& sorted);

  const Origins& origins();
  const Origin* origin_of_state(const Name& name);

  const Model& model_;
  SiteNames* around_;
  std::optional<Origins> origins_;
  std::optional<std::unordered_map<std::string, std::vector<Name>>> tensors_;  // by layer
};

}  // namespace refx
