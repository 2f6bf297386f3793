// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "refx/model.h"

namespace refx {

// The range of a symbolic size.
struct Bounds {
  std::int64_t min, max;
};
Bounds bounds_of(const Model& model, const std::string& symbol);

// The rows of the smallest table that an input indexes; none if it indexes no table.
std::optional<std::int64_t> smallest_table(const Model& model, NodeId input);

}  // namespace refx
