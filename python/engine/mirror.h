// SPDX-License-Identifier: Apache-2.0
#pragma once

// The engine under refx.fx: makes a model of a torch.fx.GraphModule, so that the library can
// rewrite it, and brings the GraphModule to where the model then is.
//
//   read    GraphModule -> mirror: what differs from last time becomes a step, or is adopted
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

// The objects that a change of the model changed, each once: what is to be written.
struct ChangedObjects {
  std::vector<NodeId> nodes;  // in graph order
  std::vector<std::pair<StateId, std::string>> states;
  std::vector<std::pair<ModuleId, std::string>> modules;
};

// The model that a torch.fx.GraphModule is to the core, with the history of its rewrites. It shares
// the GraphModule's tensors and holds no other Python objects.
class Mirror {
 public:
  // Whom a difference between the GraphModule and the mirror is ascribed to.
  struct Author {
    std::string transformation, signature;
  };
  // The steps of somebody who is not refx: never reversed.
  static constexpr const char* kOthers = "changes by others";

  const Model& model() const { return model_; }

  // Reads the GraphModule. The first time, that is the model; later, what differs becomes a step.
  StepId read(Tables& tables, py::handle graph_module, const Author& author);
  // What is there is now what the mirror has: the next time, only what has changed since is read.
  void see(Tables& tables, py::handle graph_module) const;
  // Makes the fx nodes of a copy known, by position or by name; read() then compares them.
  void attach(Tables& tables, py::handle graph_module, const std::vector<std::string>& names);

  // Each throws Error and changes nothing, or says what it changed. Without the GIL.
  struct Applied {
    std::vector<StepId> steps;
    ChangedObjects changed;
  };
  // The mark is for a transformation whose class in Python is derived from the library's.
  Applied apply(const Transformation& transformation, const std::string& mark);
  // `replaced` receives the dependent steps.
  ChangedObjects reverse(const std::vector<StepId>& steps, ReverseOptions options,
                         std::vector<Reversal::Replaced>& replaced);
  Findings find(const Transformation& transformation) const;

  // The steps that are meant: by id, transformation or site. Of others than refx only if none else
  // is.
  std::vector<StepId> select(std::string_view what) const;
  std::vector<StepId> steps_of(std::string_view signature) const;
  // Whether refx took any.
  bool has_steps() const;
  // What live steps write.
  ChangedObjects changed_by_steps() const;
  // All tensors of the model, and those that its steps replaced.
  std::vector<at::Tensor> tensors() const;
  // The signatures of the live steps that wrote a module, or a tensor outside of modules, by path.
  std::unordered_map<std::string, std::vector<std::string>> authors(const Tables& tables) const;

  // Whether a module object is what the model has there, tensors and all.
  bool matches_module(Tables& tables, ModuleId id, py::handle module) const;

  // All of it as bytes, and the tensors it refers to.
  std::string save(std::vector<at::Tensor>& tensors) const;
  static Mirror load(std::string_view bytes, const std::vector<at::Tensor>& tensors);

 private:
  void fill(Tables& tables, const Survey& survey);  // the first time
  void take_snapshots();
  void take_snapshots(const ChangedObjects& changed);
  bool has_other_contents(StateId id, const StateEntry& entry) const;
  bool is_as_seen(const Tables& tables, py::handle graph_module) const;

  Model model_;
  std::vector<TensorSnapshot> snapshots_;  // by state id
  bool training_ = false;                  // of the GraphModule as a whole
  bool is_read_ = false;
};

// Brings a GraphModule to where the mirror is, after a change of these objects. The graph's hooks
// may throw: half-way, it can be brought there, or back, without them.
void write(const Mirror& mirror, Tables& tables, py::handle graph_module,
           const ChangedObjects& changed, bool hooks);

// Likewise, but from whatever somebody made of it; `changed` are the objects of steps that were
// reversed.
void write_all(const Mirror& mirror, Tables& tables, py::handle graph_module,
               ChangedObjects changed);

// Puts containers back that were copied, where the copies now hold what they held.
void put_back_containers(const Tables& tables, py::handle graph_module);

// A module as the core sees it.
Module describe(Tables& tables, const Name& path, py::handle module);
// Whether its hyper-parameters are other objects when they are other values.
bool has_fixed_parameters(py::handle module);

}  // namespace refx::fx
