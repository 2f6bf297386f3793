// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

class Transaction;

// The only way to change a Model. Every change is an Edit in a journal; commit() makes the journal
// a step of the history, and an Editor that goes away without commit() takes everything back.
class REFX_API Editor {
 public:
  explicit Editor(Model& model);
  ~Editor();
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  const Model& model() const;
  const Graph& graph() const { return model().graph(); }
  const State& state() const { return model().state(); }
  const Modules& modules() const { return model().modules(); }

  // Nodes. A name that is taken gets a number, as in torch.fx; an empty one is made from the
  // target.
  NodeId insert_before(NodeId where, Node node);  // no id: at the end
  NodeId insert_after(NodeId where, Node node);
  void set_node(NodeId id, Node node);  // the node keeps its name, its marks and its place
  void set_target(NodeId id, Name target);
  void set_arg(NodeId id, std::size_t position, Arg value);
  void set_kwarg(NodeId id, std::string_view name, Arg value);  // added, if there is none
  void set_type(NodeId id, TypePtr type);
  void replace_uses(NodeId of, NodeId by);
  void erase_node(NodeId id);  // must have no users

  // State. No id: at the end. An entry of a name that was erased takes the erased one's place.
  StateId add_state(StateEntry entry, StateId after = {});
  StateId insert_before(StateId where, StateEntry entry);
  void set_state(StateId id, at::TensorBase tensor);
  void set_state(StateId id, StateEntry entry);  // it keeps its name
  void erase_state(StateId id);

  // Modules. Likewise.
  ModuleId add_module(Module module, ModuleId after = {});
  ModuleId insert_before(ModuleId where, Module module);
  void set_module(ModuleId id, Module module);
  void erase_module(ModuleId id);

  // Marks, see Transformation.
  void mark(NodeId id, const Name& signature);
  void unmark(NodeId id, const Name& signature);
  void set_marks(NodeId id, std::vector<Name> signatures);

  // Says how a tensor written in this step is composed of earlier ones.
  void add_piece(Piece piece);

  // What belongs to the model as a whole and no rewrite changes.
  void set_mutations(std::vector<Mutation> mutations);
  void set_kept_modules(std::vector<std::string> paths);

  // Replaces the recorded step of the same id: for a model that as a whole was moved to another
  // dtype or device, and what its history keeps with it. Done when the journal is kept.
  void amend(Step step);

  bool changed() const;
  // Takes the journal so far back.
  void roll_back();
  // The journal so far, one edit per object.
  std::vector<Edit> edits() const;

  // Validates what was touched and appends the step; returns no id if nothing was changed.
  // On a broken model: throws InternalError that names the step; everything is taken back.
  struct Label {
    Name transformation, signature, site;
    Kwargs parameters;
  };
  StepId commit(Label label);
  // The journal so far is how the model came to be, not a step.
  void commit_as_origin(std::shared_ptr<const Source> source = nullptr);
  // The journal so far is no rewrite (a weight was trained, a type was learnt), and no step.
  void commit_without_step();

 private:
  std::unique_ptr<Transaction> transaction_;
  std::vector<Piece> pieces_;
  std::vector<std::shared_ptr<const Step>> amended_;
};

}  // namespace refx
