#include "pt2/source.h"
#include "refx/original.h"

namespace refx {

bool is_original(const Model& model) {
  const auto* source = dynamic_cast<const Pt2Source*>(model.source().get());
  return source && is_original(model, *source) && source->original_skeleton();
}

}  // namespace refx
