// SPDX-License-Identifier: Apache-2.0

#include "ir/piece.h"

namespace refx {

bool is_inside(const Piece& piece, const at::TensorBase& whole) {
  if (piece.dim < 0 || piece.dim >= whole.dim()) return false;
  const std::int64_t size = whole.size(piece.dim);
  return piece.length >= 0 && piece.length <= size && piece.start >= 0 &&
         piece.start <= size - piece.length;
}

bool fits(const Piece& piece, const at::TensorBase& whole, const at::TensorBase& part) {
  if (!is_inside(piece, whole)) return false;
  const std::int64_t size = whole.size(piece.dim);
  return part.numel() == (size == 0 ? 0 : whole.numel() / size * piece.length);
}

}  // namespace refx
