// SPDX-License-Identifier: Apache-2.0

// Before:   y = batch_norm(linear(x, W, b))        or  y = linear(batch_norm(x), W, b)
// After:    y = linear(x, s * W, s * b + t)        or  y = linear(x, W * s, W t + b)
//           s = weight / sqrt(var + eps), t = bias - mean * s, for two-dimensional activations
// Refuses:  training mode; no running statistics; activations that are not known to have two
//           dimensions; an intermediate result with other readers; modules that are called twice;
//           tensors of the batch norm that have other readers; a weight that may be written in
//           place; different dtypes or devices; folded weights that are not finite; a write to x
//           between the two layers
// Keeps:    a weight with other readers: the linear gets a weight of its own
// Numerics: folded in fp64, rounded once

#include "refx/transforms.h"
#include "transforms/fuse_batch_norm.h"

namespace refx {

Findings FuseBatchNorm1dInLinear::find(const Model& model) const {
  return find_batch_norms(model, NormFolding{.layer = NormFolding::LayerKind::linear});
}

std::optional<Reason> FuseBatchNorm1dInLinear::apply(Editor& editor, const Site& site) const {
  return fold_batch_norm(editor, site, NormFolding{.layer = NormFolding::LayerKind::linear});
}

}  // namespace refx
