// SPDX-License-Identifier: Apache-2.0

#include "refx/original.h"

#include "edit/undo_unread.h"

namespace refx {

Model original_of(const Model& model) {
  Model original = model;
  undo_unread(original, plan_reversal(original, original.history().ids()),
              {.dependents = Dependents::cascade, .discard_changes = true});
  return original;
}

}  // namespace refx
