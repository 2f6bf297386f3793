// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "refx/export.h"

namespace refx {

// The leaf modules of torch.nn that refx knows, by type: "torch.nn.Linear", sorted.
REFX_API std::vector<std::string> layer_types();
// The tensors of one: "weight", "bias". None for a type that is not known.
REFX_API std::vector<std::string> layer_tensors(std::string_view type);
// Whether transformations look for it, so that it is worth a reason why one is left alone.
REFX_API bool is_rewritten_layer(std::string_view type);

}  // namespace refx
