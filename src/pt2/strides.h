#pragma once

#include <unordered_map>

#include "pt2/source.h"

namespace refx {

// A rewrite may give a value other strides: a slice of a merged linear is not contiguous. Views of
// it follow, and the file is to say so. These are the types of such views; all others have their
// own.
std::unordered_map<NodeId, TypePtr> types_of_views(const Model& model, const Pt2Source& source);

}  // namespace refx
