// SPDX-License-Identifier: Apache-2.0
#pragma once

// The engine of refx.fx. It builds a model of a torch.fx.GraphModule, lets the library rewrite the
// model, and updates the GraphModule accordingly.
//
//   read    GraphModule -> mirror: a difference from the last time becomes a step, or is adopted
//   apply, reverse          the library changes the mirror; the GraphModule does not know yet
//   write   mirror -> GraphModule: the objects that changed, and no others
//   save, load              the mirror as bytes, for pickle and copies
//
// The mirror holds tensors and no other Python objects: those are in Tables, which Python owns.
// docs/fx.md explains all of it.

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/convert.h"
#include "engine/snapshot.h"
#include "engine/tables.h"
#include "refx/reverse.h"
#include "refx/transformation.h"

namespace refx::fx {

class Survey;

// The objects that a change of the model concerns, each once. They have to be written.
struct ChangedObjects {
  std::vector<NodeId> nodes;  // in graph order
  std::vector<std::pair<StateId, std::string>> states;
  std::vector<std::pair<ModuleId, std::string>> modules;
};

// The model of a torch.fx.GraphModule, with the history of its rewrites. It shares the tensors of
// the GraphModule and holds no other Python objects.
class Mirror {
 public:
  // The transformation that a difference between the GraphModule and the mirror is attributed to.
  struct Author {
    std::string transformation, signature;
    Numerics numerics = Numerics::preserved;
  };
  // The transformation of steps that refx did not make. They are never reversed.
  static constexpr const char* kOthers = "changes by others";

  const Model& model() const { return model_; }

  // Reads the GraphModule. The first time, that is the model; later, what differs becomes a step.
  StepId read(Tables& tables, py::handle graph_module, const Author& author);
  // Records that the GraphModule and the mirror agree: the next read looks for later changes only.
  void mark_synced(Tables& tables, py::handle graph_module) const;
  // Associates the fx nodes of a copy with ids, by position or by name; read() then compares them.
  void attach(Tables& tables, py::handle graph_module, const std::vector<std::string>& names);

  // Each of these throws Error and changes nothing, or returns what it changed. Called without the
  // GIL.
  struct Applied {
    std::vector<StepId> steps;
    ChangedObjects changed;
  };
  // `mark` is the signature of the Python class, which may derive from the library's
  // transformation.
  Applied apply(const Transformation& transformation, const std::string& mark);
  // `replaced` receives the dependent steps.
  ChangedObjects reverse(const std::vector<StepId>& steps, ReverseOptions options,
                         std::vector<Reversal::Replaced>& replaced);
  Findings find(const Transformation& transformation) const;

  // The steps that `what` selects: an id, a transformation or a site. Changes by others are
  // selected only if nothing else is.
  std::vector<StepId> select(std::string_view what) const;
  std::vector<StepId> steps_of(std::string_view signature) const;
  // Whether there are steps that refx made.
  bool has_steps() const;
  // The objects that the steps in the history changed.
  ChangedObjects changed_by_steps() const;
  // All tensors of the model, and those that its steps replaced.
  std::vector<at::Tensor> tensors() const;
  // The signatures of the live steps that wrote a module, or a tensor outside of modules, by path.
  std::unordered_map<std::string, std::vector<std::string>> authors(const Tables& tables) const;

  // Whether a module object is what the model has there, tensors and all.
  bool matches_module(Tables& tables, ModuleId id, py::handle module) const;

  // The mirror as bytes, and the tensors that the bytes refer to.
  std::string save(std::vector<at::Tensor>& tensors) const;
  static Mirror load(std::string_view bytes, const std::vector<at::Tensor>& tensors);

 private:
  void fill(Tables& tables, const Survey& survey);  // the first time
  void take_snapshots();
  void take_snapshots(const ChangedObjects& changed);
  bool has_other_contents(StateId id, const StateEntry& entry) const;
  bool is_synced(const Tables& tables, py::handle graph_module) const;

  Model model_;
  std::vector<TensorSnapshot> snapshots_;  // by state id
  bool training_ = false;                  // of the GraphModule as a whole
  bool is_read_ = false;
};

// Makes the GraphModule equal to the mirror after a change of these objects. Hooks of the graph may
// throw. Then the GraphModule is half written, and can be completed or reset by another call
// without hooks.
void write(const Mirror& mirror, Tables& tables, py::handle graph_module,
           const ChangedObjects& changed, bool hooks);

// The same for a GraphModule that somebody's code left in any state. `changed` are the objects of
// steps that were reversed.
void write_all(const Mirror& mirror, Tables& tables, py::handle graph_module,
               ChangedObjects changed);

// Replaces copied containers by their originals where both have the same contents again.
void put_back_containers(const Tables& tables, py::handle graph_module);

// The library's description of a module.
Module describe(Tables& tables, const Name& path, py::handle module);
// Whether a change of a hyper-parameter always shows as a different object.
bool has_fixed_parameters(py::handle module);

}  // namespace refx::fx
