// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_map>

#include "ir/content.h"
#include "refx/model.h"

namespace refx {

inline const void* key_of_storage(const at::TensorBase& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

// A storage whose bytes are a part of another tensor.
struct StorageSlice {
  at::TensorBase whole;
  Piece piece;
  std::size_t size;
  ContentHash hash;
};
using Slices = std::unordered_map<const void*, StorageSlice>;  // by storage

// Originals that are still there as parts of what a step made of them.
Slices find_slices(const Model& model);

}  // namespace refx
