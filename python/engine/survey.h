// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/torch_fx.h"
#include "refx/model.h"
#include "refx/name_index.h"

namespace refx::fx {

// What a GraphModule contains, before it is converted.

struct FxNode {
  py::object node;
  Opcode op;
};

struct FoundState {
  Name name;
  StateKind kind;
  bool persistent;
  PyObject* tensor;  // borrowed
  StateId id = {};   // of the model's entry of that name, once looked up
};

struct FoundModule {
  Name path;
  PyObject* module;        // borrowed
  std::string_view outer;  // the path of a called module that it is part of; mostly none
};

// The paths of modules that nodes call, as the nodes spell them.
class CalledPaths {
 public:
  void reserve(std::size_t size);
  void insert(std::string_view path);
  // The path; null if no node calls it.
  const std::string_view* find(const NameKey& path) const;

 private:
  std::vector<std::string_view> paths_;
  NameIndex index_;
};

// The nodes of a graph in order, the tensors, and the modules that the model describes: those that
// nodes call, and empty ones.
class Survey {
 public:
  explicit Survey(py::handle graph_module);
  Survey(const Survey&) = delete;

  std::vector<FxNode> nodes;
  std::vector<FoundState> states;
  std::vector<FoundModule> modules;
  CalledPaths called;
  std::unordered_set<Name> special;  // tensors of derived classes, which refx does not rewrite

 private:
  void survey_module(py::handle module, const Name& path, std::string_view outer);
  void add_state(Name name, StateKind kind, bool persistent, PyObject* tensor);
  void survey_attributes(py::handle graph_module, const std::vector<std::string>& names);

  std::vector<py::object> kept_;  // owns objects that are borrowed above
};

// Only the nodes.
std::vector<FxNode> nodes_of(py::handle graph_module);

}  // namespace refx::fx
