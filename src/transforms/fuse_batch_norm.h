// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "refx/transformation.h"

namespace refx {

// Which layers a batch norm is folded into. All transformations that fold batch norms share one
// search and one rewrite, and differ only in this.
struct NormFolding {
  enum class LayerKind : std::uint8_t { linear, convolution };
  enum class Transposed : std::uint8_t { no, yes, both };

  LayerKind layer = LayerKind::convolution;
  int dims = 2;  // of a convolution: 1, 2 or 3
  Transposed transposed = Transposed::no;
};

Findings find_batch_norms(const Model& model, const NormFolding& folding);
std::optional<Reason> fold_batch_norm(Editor& editor, const Site& site, const NormFolding& folding);

}  // namespace refx
