// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBase.h>

#include <string>
#include <vector>

#include "refx/editor.h"
#include "refx/export.h"

namespace refx {

// Builds a model in code, with the nodes of torch.export or of torch.fx:
//
//   Builder b;
//   NodeId x = b.input("x", type);
//   NodeId w = b.parameter("q.weight", tensor);                 // a lifted placeholder
//   NodeId q = b.call("aten.linear.default", {x, w});
//   Model model = b.build(q);
class REFX_API Builder {
 public:
  Builder();

  NodeId input(std::string name, TypePtr type = nullptr);

  // A state entry and the placeholder that reads it, as in torch.export.
  NodeId parameter(const std::string& name, at::TensorBase tensor);
  NodeId buffer(const std::string& name, at::TensorBase tensor, bool persistent = true);
  NodeId constant(const std::string& name, at::TensorBase tensor);
  // A state entry without a node, for get_attr() or as a tensor of a module.
  StateId state(StateEntry entry);
  NodeId get_attr(const std::string& state);

  NodeId call(Name target, Args args, Kwargs kwargs = {});
  NodeId method(Name target, Args args, Kwargs kwargs = {});
  void module(Module module);
  NodeId call_module(const std::string& path, Args args, Kwargs kwargs = {});

  // Set the type or the metadata of the last node.
  Builder& typed(TypePtr type);
  Builder& with_meta(MetaPtr meta);

  // Completes the model, which returns `result`. Its first elements are the mutated outputs, as in
  // torch.export.
  Model build(Arg result, std::vector<Mutation> mutations = {});

 private:
  NodeId add(Node node);
  NodeId lifted(StateEntry entry, const char* prefix);

  Model model_;
  Editor editor_;
  NodeId last_;
  NodeId last_lifted_;
};

}  // namespace refx
