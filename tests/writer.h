// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "ops/views.h"
#include "refx/refx.h"

namespace refx::testing {

// Writes models layer by layer in one of the three spellings, and knows the value of every node on
// a sample input, so that shapes are at hand. Aten models get their types from those values.
class Writer {
 public:
  Writer(Spelling spelling, at::ScalarType dtype = at::kFloat, std::uint64_t seed = 1);

  struct NormOptions {
    bool affine = true, training = false, track = true;
  };
  struct ConvOptions {
    std::int64_t kernel = 3, groups = 1, stride = 1, padding = 1, dilation = 1;
    bool transposed = false, bias = true;
  };

  NodeId input(std::vector<std::int64_t> sizes);
  // A layer of its own at `path`; a path used before calls that layer again.
  NodeId linear(NodeId x, const std::string& path, std::int64_t out, bool bias = true);
  NodeId conv(NodeId x, const std::string& path, std::int64_t out, ConvOptions options);
  NodeId norm(NodeId x, const std::string& path, NormOptions options);
  NodeId buffer(const std::string& name, at::Tensor tensor);
  // By bare operator name: "relu" is aten.relu.default, torch.relu or the method relu.
  NodeId call(const std::string& name, Args args, const std::string& overload = "default");
  NodeId divide(NodeId x, Arg divisor);
  // -x * 2 in a region without gradients, or in both branches of torch.cond.
  NodeId region(NodeId x);
  NodeId branch(NodeId x);

  const at::Tensor& value(NodeId node) const { return values_.at(node); }
  at::Tensor random(std::vector<std::int64_t> sizes);
  const at::TensorBase& tensor(const std::string& state) const;
  void set_requires_grad(bool on) { requires_grad_ = on; }

  Model build(Arg result) { return builder_.build(std::move(result)); }

 private:
  NodeId parameter(const std::string& name, at::Tensor tensor);
  NodeId read(const std::string& name);
  NodeId function(const std::string& aten, const std::string& torch, Args args);
  NodeId module(Module module, NodeId x);
  NodeId learn(NodeId node, const Node& call);

  Spelling spelling_;
  at::ScalarType dtype_;
  bool requires_grad_ = false;
  at::Generator generator_;
  Builder builder_;
  std::unordered_map<NodeId, at::Tensor> values_;
  std::unordered_map<std::string, StateEntry> states_;
  std::unordered_map<std::string, Module> modules_;
  std::unordered_map<std::string, NodeId> lifted_;
};

}  // namespace refx::testing
