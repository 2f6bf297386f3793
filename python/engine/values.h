// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "engine/survey.h"
#include "engine/tables.h"

namespace refx::fx {

// Converts what a survey found to values of the library.
class Values {
 public:
  Values(const Model& model, Tables& tables, const Survey& survey)
      : model_(model), tables_(tables), survey_(survey) {}

  StateEntry entry_of(const FoundState& found) const;
  Module module_of(const FoundModule& found) const;
  // The model must have what the node reads and calls.
  Node node_of(const FxNode& fx_node, py::handle meta);

  // Remembers the present objects of a node, for is_as_remembered().
  void remember(NodeId id, const FxNode& fx_node, py::handle meta);

 private:
  MetaPtr meta_of(py::handle meta);
  void set_target(py::handle target, Node& node);

  const Model& model_;
  Tables& tables_;
  const Survey& survey_;
  // Caches by the address of the string object: nodes of one module share the string of its path.
  std::unordered_map<PyObject*, MetaPtr> metas_;
  std::unordered_map<PyObject*, Name> methods_;
  std::vector<py::object> texts_;  // keeps these strings alive, so that no address is reused
};

// Whether a node still has the objects that were remembered.
bool is_as_remembered(const Tables& tables, NodeId id, const FxNode& fx_node, py::handle meta);

}  // namespace refx::fx
