// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/batch_norm.h"
#include "ops/sharing.h"

namespace refx {

// y = scale * x + shift, per channel, in fp64 and ordinary memory.
struct Affine {
  at::Tensor scale, shift;
};
Affine affine_of(const Model& model, const BatchNormOp& norm);

// Why the two cannot be folded into one layer of the layer's dtype; nullopt if they can.
std::optional<Reason> why_not_foldable(const Model& model, const Layer& layer,
                                       const BatchNormOp& norm, std::optional<Sharing>& sharing);

// A layer with a batch norm folded in: its weight times `factor`, and a new bias, both in fp64.
struct Fold {
  at::Tensor factor;  // broadcasts to the weight
  at::Tensor bias;
};
// Why the folded values are not finite in the layer's dtype; nullopt if they are. Reads the weight.
std::optional<Reason> why_not_finite(const Model& model, const Layer& layer, const Fold& fold);
// Gives the layer folded tensors instead of its own, rounded once, and a bias where there was none;
// `node` will read them. Returns the layer with these; nullopt, and changes nothing, if the folded
// values are not finite.
std::optional<Layer> set_folded(Editor& editor, const Layer& old, const Fold& fold, NodeId node);
// Erases the nodes that read the layer's former tensors for it alone.
void erase_unread(Editor& editor, const Layer& former);

}  // namespace refx
