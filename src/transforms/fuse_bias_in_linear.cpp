// SPDX-License-Identifier: Apache-2.0

// Before:   y = linear(x, W, b)
// After:    y = linear(pad(x, one column of ones), [W b])
// Refuses:  shared, quantized, sparse or computed tensors; modules with hooks or called twice;
//           weight and bias of which only one is frozen
// Numerics: the bias becomes one more product in the sum

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <c10/core/InferenceMode.h>

#include "ops/layer.h"
#include "refx/transforms.h"

namespace refx {

namespace {

std::optional<Reason> why_not(const Model& model, const LinearOp& linear) {
  if (linear.problem) return linear.problem;
  const at::Tensor weight = tensor_of(model, linear.weight), bias = tensor_of(model, *linear.bias);
  if (weight.requires_grad() != bias.requires_grad())
    return because<ReasonId::weight_or_bias_frozen>();
  return std::nullopt;
}

Node padding(const Editor& editor, const LinearOp& linear, std::int64_t width) {
  const Node& input = editor.graph()[linear.input];
  Node pad{.op = Opcode::call_function, .meta = editor.graph()[linear.node].meta};
  pad.type = with_last_dim(input.type, width + 1);
  static const Name kAten = "aten.constant_pad_nd.default", kFunctional = "torch.nn.functional.pad";
  if (linear.spelling == Spelling::aten) {
    pad.target = kAten;
    pad.args = {linear.input, List{{0, 1}}, 1.0};
  } else {
    pad.target = kFunctional;
    // As torch.fx writes it, so that a graph that is traced again stays the same.
    pad.args = {linear.input, Tuple{{0, 1}}};
    pad.kwargs = {{"mode", "constant"}, {"value", 1.0}};
  }
  return pad;
}

}  // namespace

Findings FuseBiasInLinear::find(const Model& model) const {
  Findings findings;
  for (NodeId id : model.graph()) {
    const auto linear = LinearOp::match(model, id);
    if (!linear || (!linear->problem && !linear->bias)) continue;
    Site site{.nodes = {id}};
    findings.add(std::move(site), why_not(model, *linear));
  }
  return findings;
}

std::optional<Reason> FuseBiasInLinear::apply(Editor& editor, const Site& site) const {
  const c10::InferenceMode ordinary_tensors(false);
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const LinearOp linear = LinearOp::at(editor.model(), site.nodes[0]);
  const at::Tensor weight = tensor_of(editor.model(), linear.weight);
  const at::Tensor bias = tensor_of(editor.model(), *linear.bias);
  const std::int64_t width = weight.size(1);
  at::Tensor fused = at::cat({weight, bias.unsqueeze(1)}, 1);
  fused.set_requires_grad(weight.requires_grad());

  const NodeId pad = editor.insert_before(linear.node, padding(editor, linear, width));
  editor.set_node(linear.node, respelled(editor.model(), linear, pad, std::nullopt));
  set_param(editor, linear.weight, fused);
  editor.add_piece({linear.weight.state, linear.weight.state, 1, 0, width});
  editor.add_piece({linear.weight.state, linear.bias->state, 1, width, 1});
  erase_param(editor, *linear.bias);
  if (linear.module) {
    set_module_parameter(editor, linear.module, "in_features", width + 1);
    set_module_parameter(editor, linear.module, "bias", false);
  }
  return std::nullopt;
}

}  // namespace refx
