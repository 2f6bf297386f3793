// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "book/target.h"
#include "exec/policy.h"
#include "exec/program.h"
#include "refx/model.h"

namespace refx::exec {

// Compiles a model's nodes to a Program. The lowerings of functions and layers use the functions
// that emit instructions.
class Compiler {
 public:
  explicit Compiler(const Model& model, const std::vector<std::string>& allow_ops = {})
      : Compiler(model, Policy(model, allow_ops)) {}
  Compiler(const Model& model, Policy policy) : model_(model), policy_(std::move(policy)) {}
  Program compile();

  // Each emits one instruction and returns its result; several results make a tuple.
  Operand call(std::string_view target, const std::vector<Operand>& args,
               const NamedOperands& kwargs = {});
  Operand call_native(Native native, std::vector<Operand> args);
  Operand call_late(Bind bind, std::string name, std::vector<Operand> args, NamedOperands kwargs);
  Operand call_overloaded(std::string name, std::vector<Operand> args, NamedOperands kwargs);

  static Operand constant(const Arg& arg);  // an argument without nodes in it
  // The state entry of that name.
  Operand state(std::string_view name);
  bool has_state(std::string_view name) const { return bool(model_.state().find(name)); }
  const Model& model() const { return model_; }

 private:
  Operand compile_node(NodeId id, const Node& node);
  Operand compile_function(const Node& node);
  Operand compile_torch_function(const book::Target& target, std::vector<Operand> args,
                                 NamedOperands kwargs);
  Operand compile_higher_order(const Node& node);
  Operand compile_region(const Model& body, const std::vector<Operand>& inputs);
  Operand compile_method(const Node& node);
  Operand compile_module(const Node& node);
  Operand user_input(const Node& node);
  void compile_mutations();

  Operand operand(const Arg& arg) const;
  std::vector<Operand> operands(const Args& args) const;
  NamedOperands operands(const Kwargs& kwargs) const;
  Instruction& emit();
  Operand result_of(Instruction& instruction);
  Slot new_slot();

  const Model& model_;
  Policy policy_;
  const Node* node_ = nullptr;  // the one being compiled
  std::string scope_;           // of a region in the graph: "submod_1/", for messages
  std::optional<book::Autocast> autocast_;
  Program program_;
  std::unordered_map<NodeId, Operand> values_;
  std::unordered_map<std::string, Slot> state_slots_;
};

}  // namespace refx::exec
