#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/torch_fx.h"
#include "refx/model.h"

namespace refx::fx {

// What a GraphModule has, before anything is made of it.

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

// What is there: the nodes of a graph in order, the tensors, and the modules that the core is to
// know of.
class Survey {
 public:
  explicit Survey(py::handle graph_module);
  Survey(const Survey&) = delete;

  std::vector<FxNode> nodes;
  std::vector<FoundState> states;
  std::vector<FoundModule> modules;
  std::unordered_set<Name> called;   // the paths of modules that nodes call
  std::unordered_set<Name> special;  // tensors of a class of their own, which is not refx's to
                                     // rewrite

 private:
  void survey_module(py::handle module, const Name& path, std::string_view outer);
  void add_state(Name name, StateKind kind, bool persistent, PyObject* tensor);
  void survey_attributes(py::handle graph_module, const std::vector<std::string>& names);

  std::vector<py::object> kept_;  // so that what is borrowed stays
};

// The nodes alone.
std::vector<FxNode> nodes_of(py::handle graph_module);

}  // namespace refx::fx
