// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBase.h>

#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/name.h"
#include "refx/rings.h"
#include "refx/table.h"

namespace refx {

// The tensors of a model.

enum class StateKind : std::uint8_t { parameter, buffer, constant };
REFX_API std::string_view to_string(StateKind kind);

// A named tensor of the model. The tensor itself stores requires_grad.
struct REFX_API StateEntry {
  Name name;
  StateKind kind = StateKind::parameter;
  bool persistent = true;
  at::TensorBase tensor;
};

// Must be called before the values of a tensor of a loaded model are read. Only then are they
// checked, or computed from another tensor. Throws Error if they are damaged.
REFX_API void require_content(const at::TensorBase& tensor);

// The named tensors, in order. Entries whose tensors share a storage are tied to each other.
class REFX_API State : public Table<StateEntry> {
 public:
  // Counts the live entries whose tensors use the same storage, including this one.
  std::size_t storage_sharers(StateId id) const;
  const at::TensorBase& tensor(StateId id) const { return (*this)[id].tensor; }

 private:
  friend struct ModelAccess;
  Ptr exchange(StateId id, Ptr value);
  std::uint32_t any_with(const void* storage) const;

  std::vector<const void*>
      storages_;   // by id: of the tensor, as it came; torch may give it another
  Rings sharers_;  // of each storage
};

}  // namespace refx
