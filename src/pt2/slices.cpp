// SPDX-License-Identifier: Apache-2.0

#include "pt2/slices.h"

#include <ATen/core/Tensor.h>

#include <cstring>

#include "ir/detached.h"
#include "ir/piece.h"

namespace refx {

namespace {

// A tensor that fills its storage, in order: its bytes are the storage's.
bool fills_storage(const at::TensorBase& tensor) {
  return tensor.defined() && !tensor.is_meta() && tensor.is_cpu() && tensor.is_contiguous() &&
         tensor.storage_offset() == 0 && tensor.nbytes() == tensor.storage().nbytes();
}

bool same_bits(const at::TensorBase& whole, const Piece& piece, const at::TensorBase& part) {
  require_content(whole);
  require_content(part);
  if (whole.scalar_type() != part.scalar_type() || !whole.is_cpu()) return false;
  if (!fits(piece, whole, part)) return false;
  const at::Tensor slice =
      at::Tensor(whole).detach().narrow(piece.dim, piece.start, piece.length).contiguous();
  return slice.nbytes() == part.nbytes() &&
         (part.nbytes() == 0 || std::memcmp(slice.const_data_ptr(),
                                            at::Tensor(part).const_data_ptr(), part.nbytes()) == 0);
}

}  // namespace

Slices find_slices(const Model& model) {
  Slices slices;
  for (const Step& step : model.history()) {
    if (step.pieces.empty()) continue;
    std::unordered_map<StateId, const Change<StateEntry>*> changes;
    for (const Edit& edit : step.edits)
      if (const auto* change = std::get_if<Change<StateEntry>>(&edit))
        changes.emplace(change->id, change);
    for (const Piece& piece : step.pieces) {
      if (!piece.part) continue;
      const auto& whole = changes.at(piece.whole)->after;
      const auto& part = changes.at(piece.part)->before;
      if (!whole || !part || !fills_storage(part->tensor) || detached_in(part->tensor)) continue;
      if (same_bits(whole->tensor, piece, part->tensor))
        slices.try_emplace(
            key_of_storage(part->tensor),
            StorageSlice{whole->tensor, piece, part->tensor.nbytes(), content_hash(part->tensor)});
      let_go_content(part->tensor);
    }
  }
  return slices;
}

}  // namespace refx
