// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_map>

#include "graph_json/graph_text.h"
#include "refx/model.h"

namespace refx {

// A rewrite may give a value other strides: a slice of a merged linear is not contiguous. Views of
// it follow, and the file is to say so. These are the types of such views; all others have their
// own.
std::unordered_map<NodeId, TypePtr> types_of_views(const Model& model, const GraphText& text);

}  // namespace refx
