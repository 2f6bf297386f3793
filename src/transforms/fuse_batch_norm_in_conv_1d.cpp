// SPDX-License-Identifier: Apache-2.0

// Before:   y = batch_norm(conv1d(x, W, b))           in evaluation mode
// After:    y = conv1d(x, W * s, b * s + t)
//           s = weight / sqrt(var + eps), t = bias - mean * s, for each output channel
// Refuses:  training mode; no running statistics; a convolution whose result has other readers,
//           or is not known to have a batch dimension; modules that are called twice; tensors of
//           the batch norm that have other readers; a weight that may be written in place;
//           different dtypes or devices; folded weights that are not finite; a write to x between
//           the convolution and the batch norm
// Keeps:    a weight with other readers: the convolution gets a weight of its own
// Numerics: folded in fp64, rounded once

#include "refx/transforms.h"
#include "transforms/fuse_batch_norm.h"

namespace refx {

Findings FuseBatchNormInConv1d::find(const Model& model) const {
  return find_batch_norms(model, NormFolding{.dims = 1, .transposed = NormFolding::Transposed::no});
}

std::optional<Reason> FuseBatchNormInConv1d::apply(Editor& editor, const Site& site) const {
  return fold_batch_norm(editor, site,
                         NormFolding{.dims = 1, .transposed = NormFolding::Transposed::no});
}

}  // namespace refx
