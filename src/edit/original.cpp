#include "refx/original.h"

#include "refx/reverse.h"

namespace refx {

Model original_of(const Model& model) {
  Model original = model;
  reverse_all(original, {.dependents = Dependents::cascade, .discard_changes = true});
  return original;
}

}  // namespace refx
