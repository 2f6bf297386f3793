// SPDX-License-Identifier: Apache-2.0

// Before:   y = batch_norm(conv(x, W, b))          in evaluation mode
// After:    y = conv(x, W * s, b * s + t)
//           s = weight / sqrt(var + eps), t = bias - mean * s
// Refuses:  training mode, no running statistics; a convolution result that anyone else sees, or
//           without a batch dimension; modules that are called twice; tensors of the batch norm
//           that others use, a weight that someone may write; different dtypes or devices;
//           anything that is not finite; a write to x between the two
// Keeps:    a weight that others use too: the convolution gets one of its own
// Numerics: folded in fp64, rounded once

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "ops/fold.h"
#include "ops/inference.h"
#include "ops/memory.h"
#include "refx/transforms.h"

namespace refx {

namespace {

std::int64_t output_channels(const Model& model, const ConvOp& conv) {
  const at::Tensor weight = tensor_of(model, conv.weight);
  return conv.transposed ? weight.size(1) * conv.groups : weight.size(0);
}

Fold fold(const Model& model, const ConvOp& conv, const BatchNormOp& norm) {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  const Affine affine = affine_of(model, norm);
  Fold fold;
  if (conv.transposed) {
    // Weights are (in, out / groups, kh, kw), the inputs of each group together.
    const std::int64_t inputs = tensor_of(model, conv.weight).size(0);
    fold.factor = affine.scale.reshape({conv.groups, 1, -1})
                      .expand({-1, inputs / conv.groups, -1})
                      .reshape({inputs, -1, 1, 1});
  } else {
    fold.factor = affine.scale.reshape({-1, 1, 1, 1});
  }
  fold.bias = affine.shift;
  if (conv.bias)
    fold.bias = tensor_of(model, *conv.bias).detach().to(at::kCPU, at::kDouble) * affine.scale +
                affine.shift;
  return fold;
}

std::string why_not(const Model& model, const ConvOp& conv, const BatchNormOp& norm,
                    LazyWrites& writes, std::optional<Sharing>& sharing) {
  if (!conv.problem.empty()) return conv.problem;
  if (model.graph().num_users(conv.node) > 1)
    return "the convolution's result is used by others than the batch norm";
  if (norm.module && model.modules()[norm.module].type == "torch.nn.BatchNorm1d")
    return "the batch norm is one-dimensional";
  if (const auto rank = known_rank(model, conv.node); rank && rank != 4)
    return fmt::format(
        "the convolution's result has {} dimensions: its channels are not the second", *rank);
  if (std::string why = why_not_foldable(model, conv, norm, sharing); !why.empty()) return why;
  if (tensor_of(model, norm.mean).size(0) != output_channels(model, conv))
    return "the batch norm has another number of channels than the convolution";
  if (conv.bias && tensor_of(model, *conv.bias).sizes() != tensor_of(model, norm.mean).sizes())
    return "its bias does not fit its weight";
  if (writes.between(conv.input, conv.node, norm.node))
    return "the convolution's input may be written in place before the batch norm";
  return "";
}

// A batch norm over images, as far as can be told; those behind a convolution are.
bool is_two_dimensional(const Model& model, const BatchNormOp& norm) {
  if (norm.module) return model.modules()[norm.module].type == "torch.nn.BatchNorm2d";
  const auto rank = norm.input ? known_rank(model, norm.input) : std::nullopt;
  return rank == 4;
}

// All that is to be known before the weights are read; and, where `reads`, after that.
Findings search(const Model& model, bool reads) {
  Findings findings;
  LazyWrites writes(model);
  std::optional<Sharing> sharing;
  for (NodeId id : model.graph()) {
    const auto norm = BatchNormOp::match(model, id);
    if (!norm) continue;
    const auto conv = norm->input ? ConvOp::match(model, norm->input) : std::nullopt;
    if (!conv && !is_two_dimensional(model, *norm)) continue;
    Site site{.nodes = {id}};
    std::string reason = norm->problem;
    if (reason.empty() && !conv)
      reason = fmt::format("its input '{}' is not a convolution", model.graph()[norm->input].name);
    if (conv) site.nodes = {conv->node, id};
    if (reason.empty()) reason = why_not(model, *conv, *norm, writes, sharing);
    if (reason.empty() && reads) reason = why_not_finite(model, *conv, fold(model, *conv, *norm));
    if (reason.empty())
      findings.sites.push_back(std::move(site));
    else
      findings.refusals.push_back({std::move(site), std::move(reason)});
  }
  return findings;
}

}  // namespace

Findings FuseBatchNorm2dInConv2d::find(const Model& model) const { return search(model, true); }

Findings FuseBatchNorm2dInConv2d::find_to_apply(const Model& model) const {
  return search(model, false);
}

void FuseBatchNorm2dInConv2d::apply(Editor& editor, const Site& site) const {
  const ConvOp conv = *ConvOp::match(editor.model(), site.nodes[0]);
  const BatchNormOp norm = *BatchNormOp::match(editor.model(), site.nodes[1]);
  const Layer folded = set_folded(editor, conv, fold(editor.model(), conv, norm), norm.node);

  // The batch norm's node yields the value that is kept: it becomes the convolution.
  Node node = respelled(editor.model(), folded, conv.input, folded.bias);
  node.type = editor.graph()[norm.node].type;
  node.meta = editor.graph()[norm.node].meta;
  editor.set_node(norm.node, std::move(node));
  editor.erase_node(conv.node);
  erase_unread(editor, conv);
  norm.erase_tensors(editor);
}

}  // namespace refx
