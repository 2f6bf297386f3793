#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "ops/batch_norm.h"

namespace refx {

// y = scale * x + shift, per channel, in fp64 and ordinary memory.
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
// Whether the folded values, rounded to the layer's dtype, are still numbers. Reads the weight.
bool folds_finitely(const Model& model, const Layer& layer, const Fold& fold);
// Replaces the layer's tensors by folded ones, rounded once, adding a bias where there was none,
// which `node` will read. Returns the bias.
std::optional<Param> set_folded(Editor& editor, const Layer& layer, const Fold& fold, NodeId node);

}  // namespace refx
