// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBase.h>

#include <string>
#include <vector>

#include "refx/editor.h"
#include "refx/export.h"

namespace refx {

// Writes a model by hand, in either dialect:
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

  // State entries with a lifted placeholder each (export's way).
  NodeId parameter(const std::string& name, at::TensorBase tensor);
  NodeId buffer(const std::string& name, at::TensorBase tensor, bool persistent = true);
  NodeId constant(const std::string& name, at::TensorBase tensor);
  // A state entry alone: for get_attr, and for the tensors of a module.
  StateId state(StateEntry entry);
  NodeId get_attr(const std::string& state);

  NodeId call(Name target, Args args, Kwargs kwargs = {});
  NodeId method(Name target, Args args, Kwargs kwargs = {});
  void module(Module module);
  NodeId call_module(const std::string& path, Args args, Kwargs kwargs = {});

  // For the node just made.
  Builder& typed(TypePtr type);
  Builder& with_meta(MetaPtr meta);

  // The finished model returns `result`. Mutated outputs come first in it, as torch.export has
  // them.
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
