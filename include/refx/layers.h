// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "refx/export.h"

namespace refx {

// The types of the torch.nn layers that refx knows, sorted: "torch.nn.Linear".
REFX_API std::vector<std::string> layer_types();
// The names of a layer's tensors: "weight", "bias". Empty for an unknown type.
REFX_API std::vector<std::string> layer_tensors(std::string_view type);
// Returns true if a transformation rewrites layers of this type, so that it gives a reason where it
// does not.
REFX_API bool is_rewritten_layer(std::string_view type);

}  // namespace refx
