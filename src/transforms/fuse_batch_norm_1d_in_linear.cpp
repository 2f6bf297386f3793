// SPDX-License-Identifier: Apache-2.0

// Before:   y = batch_norm(linear(x, W, b))        or  y = linear(batch_norm(x), W, b)
// After:    y = linear(x, s * W, s * b + t)        or  y = linear(x, W * s, W t + b)
//           s = weight / sqrt(var + eps), t = bias - mean * s, over two-dimensional activations
// Refuses:  training mode, no running statistics; activations that are not known to have two
//           dimensions; an intermediate result that anyone else sees; modules that are called
//           twice; tensors of the batch norm that others use, a weight that someone may write;
//           different dtypes or devices; anything that is not finite; a write to x between the two
// Keeps:    a weight that others use too: the linear gets one of its own
// Numerics: folded in fp64, rounded once

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "ops/fold.h"
#include "ops/inference.h"
#include "ops/memory.h"
#include "refx/transforms.h"

namespace refx {

namespace {

struct Pair {
  LinearOp linear;
  BatchNormOp norm;
  bool norm_first;  // linear(batch_norm(x))

  NodeId inner() const { return norm_first ? norm.node : linear.node; }
  NodeId outer() const { return norm_first ? linear.node : norm.node; }
  NodeId input() const { return norm_first ? norm.input : linear.input; }
};

std::optional<Pair> match(const Model& model, NodeId inner, NodeId outer) {
  auto norm = BatchNormOp::match(model, inner);
  const bool norm_first = norm.has_value();
  if (!norm) norm = BatchNormOp::match(model, outer);
  auto linear = LinearOp::match(model, norm_first ? outer : inner, Tensors::maybe_shared);
  if (!norm || !linear) return std::nullopt;
  return Pair{std::move(*linear), std::move(*norm), norm_first};
}

Fold fold(const Model& model, const Pair& pair) {
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  const Affine affine = affine_of(model, pair.norm);
  const at::Tensor weight = tensor_of(model, pair.linear.weight).detach();
  const at::Tensor bias =
      pair.linear.bias ? tensor_of(model, *pair.linear.bias).detach().to(at::kCPU, at::kDouble)
                       : at::zeros({weight.size(0)}, at::kDouble);
  if (pair.norm_first)
    return {affine.scale.unsqueeze(0),
            at::mv(weight.to(at::kCPU, at::kDouble), affine.shift) + bias};
  return {affine.scale.unsqueeze(1), bias * affine.scale + affine.shift};
}

std::string why_not(const Model& model, const Pair& pair, LazyWrites& writes,
                    std::optional<Sharing>& sharing) {
  if (!pair.norm.problem.empty()) return pair.norm.problem;
  if (!pair.linear.problem.empty()) return pair.linear.problem;
  if (model.graph().num_users(pair.inner()) > 1)
    return pair.norm_first ? "the batch norm's result is used by others than the linear"
                           : "the linear's result is used by others than the batch norm";
  const auto rank = known_rank(model, pair.norm.input);
  if (!rank)
    return "the activation is not known to have two dimensions (run shape propagation, or flatten)";
  if (rank != 2)
    return fmt::format("the activation has {} dimensions: its channels are not the last", *rank);
  if (std::string why = why_not_foldable(model, pair.linear, pair.norm, sharing); !why.empty())
    return why;
  const at::Tensor weight = tensor_of(model, pair.linear.weight);
  if (tensor_of(model, pair.norm.mean).size(0) != weight.size(pair.norm_first ? 1 : 0))
    return "the batch norm has another number of features than the linear";
  if (writes.between(pair.input(), pair.inner(), pair.outer()))
    return "the input may be written in place between the linear and the batch norm";
  return why_not_finite(model, pair.linear, fold(model, pair));
}

bool is_one_dimensional(const Model& model, const BatchNormOp& norm) {
  if (norm.module) return model.modules()[norm.module].type == "torch.nn.BatchNorm1d";
  const auto rank = norm.input ? known_rank(model, norm.input) : std::nullopt;
  return rank == 2 || rank == 3;
}

// The pairs a batch norm is in: with the linear before it, and with the one after it.
std::vector<Pair> pairs_of(const Model& model, const BatchNormOp& norm) {
  std::vector<Pair> pairs;
  if (norm.input)
    if (auto pair = match(model, norm.input, norm.node)) pairs.push_back(std::move(*pair));
  for (NodeId user : model.graph().users(norm.node))
    if (auto linear = LinearOp::match(model, user, Tensors::maybe_shared);
        linear && linear->input == norm.node)
      pairs.push_back({std::move(*linear), norm, true});
  return pairs;
}

}  // namespace

Findings FuseBatchNorm1dInLinear::find(const Model& model) const {
  Findings findings;
  LazyWrites writes(model);
  std::optional<Sharing> sharing;
  for (NodeId id : model.graph()) {
    const auto norm = BatchNormOp::match(model, id);
    if (!norm) continue;
    const auto pairs = pairs_of(model, *norm);
    std::vector<Refusal> refusals;
    bool found = false;
    for (const Pair& pair : pairs) {
      std::string reason = why_not(model, pair, writes, sharing);
      Site site{.nodes = {pair.inner(), pair.outer()}};
      if (reason.empty()) {
        findings.sites.push_back(std::move(site));
        found = true;
        break;
      }
      refusals.push_back({std::move(site), std::move(reason)});
    }
    if (found) continue;
    if (pairs.empty() && is_one_dimensional(model, *norm))
      refusals.push_back({{.nodes = {id}},
                          norm->problem.empty() ? "there is no linear directly before or after it"
                                                : norm->problem});
    for (Refusal& refusal : refusals) findings.refusals.push_back(std::move(refusal));
  }
  return findings;
}

void FuseBatchNorm1dInLinear::apply(Editor& editor, const Site& site) const {
  const Pair pair = *match(editor.model(), site.nodes[0], site.nodes[1]);
  const Layer linear = set_folded(editor, pair.linear, fold(editor.model(), pair), pair.outer());

  // The outer node yields the value that is kept: it is, or becomes, the linear.
  Node node = respelled(editor.model(), linear, pair.input(), linear.bias);
  node.type = editor.graph()[pair.outer()].type;
  node.meta = editor.graph()[pair.outer()].meta;
  editor.set_node(pair.outer(), std::move(node));
  editor.erase_node(pair.inner());
  erase_unread(editor, pair.linear);
  pair.norm.erase_tensors(editor);
}

}  // namespace refx
