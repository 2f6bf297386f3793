// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

class Transaction;

// The only way to change a Model. Every change of an object is recorded as an Edit in a journal.
// commit() turns the journal into a step of the history. An Editor that is destroyed without one of
// the three commits rolls its changes back.
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

  // Nodes. A name that is taken gets a numeric suffix, as in torch.fx. A node without a name is
  // named after its target.
  NodeId insert_before(NodeId where, Node node);  // at the end if there is no id
  NodeId insert_after(NodeId where, Node node);
  void set_node(NodeId id, Node node);  // the node keeps its name, marks and position
  void set_target(NodeId id, Name target);
  void set_arg(NodeId id, std::size_t position, Arg value);
  void set_kwarg(NodeId id, std::string_view name, Arg value);  // added if it does not exist
  void set_type(NodeId id, TypePtr type);
  void replace_uses(NodeId of, NodeId by);
  void erase_node(NodeId id);  // must have no users

  // State entries. Without an id they are added at the end. A new entry with the name of an erased
  // one takes its position.
  StateId add_state(StateEntry entry, StateId after = {});
  StateId insert_before(StateId where, StateEntry entry);
  void set_state(StateId id, at::TensorBase tensor);
  void set_state(StateId id, StateEntry entry);  // the entry keeps its name
  void erase_state(StateId id);

  // Modules, with the same rules.
  ModuleId add_module(Module module, ModuleId after = {});
  ModuleId insert_before(ModuleId where, Module module);
  void set_module(ModuleId id, Module module);
  void erase_module(ModuleId id);

  // Marks, see Transformation.
  void mark(NodeId id, const Name& signature);
  void unmark(NodeId id, const Name& signature);
  void set_marks(NodeId id, std::vector<Name> signatures);

  // Records how a tensor that this step writes is composed of earlier ones.
  void add_piece(Piece piece);

  // Replaces the step of the same id in the history when the journal is committed. This is for a
  // model that is moved to another dtype or device as a whole, together with the tensors that its
  // history keeps.
  void amend(Step step);

  bool changed() const;
  // Rolls back the changes so far.
  void roll_back();
  // The changes so far, one edit per object.
  std::vector<Edit> edits() const;

  // Validates the changed objects and appends the step to the history. Returns no id if nothing
  // changed. If the model is now invalid, rolls back and throws InternalError, which names the
  // step.
  struct Label {
    Name transformation, signature, site;
    Kwargs parameters = {};
    Numerics numerics = Numerics::preserved;
  };
  StepId commit(Label label);
  // Keeps the changes as the origin of the model, not as a step. The arguments are the properties
  // of a model that no rewrite changes; those that are not given stay as they are, except the
  // source. Throws InternalError if the model has a history.
  void commit_as_origin(std::shared_ptr<const Source> source = nullptr,
                        std::optional<std::vector<Mutation>> mutations = {},
                        std::optional<std::vector<std::string>> kept_modules = {});
  // Keeps the changes without a step, because they are not a rewrite: a weight was trained, or a
  // type was inferred.
  void commit_without_step();

 private:
  std::unique_ptr<Transaction> transaction_;
  std::vector<Piece> pieces_;
  std::vector<std::shared_ptr<const Step>> amended_;
};

}  // namespace refx
