#pragma once

#include <optional>
#include <string>

#include "ops/layer.h"

namespace refx {

// A batch normalisation, whichever way the model spells it.
struct BatchNormOp {
  NodeId node, input;
  std::optional<Param> weight, bias;  // absent without affine
  Param mean, var;
  std::optional<Param> batches;  // num_batches_tracked, where a module keeps it
  double eps = 1e-5;
  ModuleId module;
  std::string problem;  // why it cannot be folded although it is one

  static std::optional<BatchNormOp> match(const Model& model, NodeId node);
  std::string path(const Model& model) const;
  // Drops its tensors and its module; the node must be gone or be something else by then.
  void erase_tensors(Editor& editor) const;
};

// y = scale * x + shift, per channel, in fp64.
struct Affine {
  at::Tensor scale, shift;
};
Affine affine_of(const Model& model, const BatchNormOp& norm);

// Why the two cannot be folded into one layer of the layer's dtype; empty if they can.
std::string why_not_foldable(const Model& model, const Layer& layer, const BatchNormOp& norm);

// A layer with a batch norm folded in: its weight times `factor`, and a new bias, both in fp64.
struct Fold {
  at::Tensor factor;  // broadcasts to the weight
  at::Tensor bias;
};
// Whether the folded values, rounded to the layer's dtype, are still numbers.
bool folds_finitely(const Model& model, const Layer& layer, const Fold& fold);
// Replaces the layer's tensors by folded ones, rounded once, adding a bias where there was none,
// which `node` will read. Returns the bias.
std::optional<Param> set_folded(Editor& editor, const Layer& layer, const Fold& fold, NodeId node);

}  // namespace refx
