#include "refx/original.h"

#include "refx/undo.h"

namespace refx {

Model original_of(const Model& model) {
  Model original = model;
  undo(original, plan_reversal(original, original.history().ids()),
       {.dependents = Dependents::cascade, .discard_changes = true});
  return original;
}

}  // namespace refx
