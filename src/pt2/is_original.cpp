// SPDX-License-Identifier: Apache-2.0

#include "pt2/source.h"
#include "refx/pt2.h"

namespace refx {

bool is_original(const Model& model) {
  const auto* source = dynamic_cast<const Pt2Source*>(model.source().get());
  return source && is_original(model, *source) && source->original_skeleton();
}

bool is_proven_original(const Model& model) {
  if (!is_original(model)) return false;
  const auto& source = dynamic_cast<const Pt2Source&>(*model.source());
  return source.whole || source.noted_fingerprint == source.fingerprint_of_original();
}

}  // namespace refx
