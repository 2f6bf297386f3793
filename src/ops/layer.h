// SPDX-License-Identifier: Apache-2.0
#pragma once

// ops/: what transformations speak to, whichever way a model spells it, and what can be told of its
// values without running it.

#include <optional>
#include <string>

#include "book/call.h"
#include "ops/param.h"

namespace refx {

// A linear or a convolution: something with an input, a weight and maybe a bias, whichever way the
// model spells it.
struct Layer {
  Spelling spelling = Spelling::aten;
  NodeId node, input;
  Param weight;
  std::optional<Param> bias;
  ModuleId module;                // when spelled as a module
  std::optional<Reason> problem;  // why it cannot be rewritten although it is one

  // "encoder.0.query": the module path, as its weight's name tells it.
  Name path(const Model& model) const;
};

// Fills spelling, input, weight and bias of a call that takes arguments of these names, and what is
// wrong with these.
Layer read_layer(const Model& model, NodeId node, const book::Call& call);
// And all else that may be a problem; that others use its tensors too, unless that may be.
enum class Tensors { own, maybe_shared };
Layer match_layer(const Model& model, NodeId node, const book::Call& call, Tensors tensors);

// The same layer on another input, with its weight, and with or without a bias. Its type and
// metadata are not set.
Node respelled(const Model& model, const Layer& layer, NodeId input,
               const std::optional<Param>& bias);

// Says in the module's hyper-parameters that it has a bias, or has not, and its input width.
void set_module_parameter(Editor& editor, ModuleId module, const std::string& name, Arg value);

struct LinearOp : Layer {
  static std::optional<LinearOp> match(const Model& model, NodeId node,
                                       Tensors tensors = Tensors::own);
  // Of a node that match() found no problem with.
  static LinearOp at(const Model& model, NodeId node);
  // Only whether it is one, and its input: what match() would say of it costs more.
  static NodeId input_of(const Model& model, NodeId node);
  // A linear spelled like this one, with tensors of its own; inserted before `where`. `path` names
  // it. `weight_place` and `bias_place` receive the places of the tensors.
  NodeId create(Editor& editor, NodeId where, const std::string& path, const at::Tensor& new_weight,
                const at::Tensor& new_bias, Param& weight_place,
                std::optional<Param>& bias_place) const;
};

// Others may use its tensors too.
struct ConvOp : Layer {
  bool transposed = false;
  std::int64_t groups = 1;
  int dims = 2;  // 1, 2 or 3; others are possible only for a weight of an invalid shape
  static std::optional<ConvOp> match(const Model& model, NodeId node);
};

}  // namespace refx
