// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "engine/survey.h"
#include "engine/tables.h"

namespace refx::fx {

// What was found, as values of the core.
class Values {
 public:
  Values(const Model& model, Tables& tables, const Survey& survey)
      : model_(model), tables_(tables), survey_(survey) {}

  StateEntry entry_of(const FoundState& found) const;
  Module module_of(const FoundModule& found) const;
  // The model must have what the node reads and calls.
  Node node_of(const FxNode& fx_node, py::handle meta);

  // Takes note of a node as it is now.
  void remember(NodeId id, const FxNode& fx_node, py::handle meta);

 private:
  MetaPtr meta_of(py::handle meta);
  void set_target(py::handle target, Node& node);

  const Model& model_;
  Tables& tables_;
  const Survey& survey_;
  // By the very texts that nodes have: paths of modules, and names of methods.
  std::unordered_map<PyObject*, MetaPtr> metas_;
  std::unordered_map<PyObject*, Name> methods_;
  std::vector<py::object> texts_;  // so that they live as long
};

// Whether a node is as it was noted.
bool is_as_remembered(const Tables& tables, NodeId id, const FxNode& fx_node, py::handle meta);

}  // namespace refx::fx
