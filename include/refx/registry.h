// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "refx/export.h"
#include "refx/progress.h"
#include "refx/transformation.h"

namespace refx {

// The transformations that there are.

using TransformationPtr = std::shared_ptr<const Transformation>;

// Every known transformation, in the order in which they are best applied: those of registry.def,
// then the user's.
REFX_API const std::vector<TransformationPtr>& registry();
// By name; throws Error with the nearest name.
REFX_API const Transformation& find_transformation(std::string_view name);
// Several, in the order of the names; kAll stands for those of the
// registry that preserve computation.
inline constexpr std::string_view kAll = "all";
REFX_API std::vector<TransformationPtr> find_transformations(const std::vector<std::string>& names);
// Finds or applies several, one after the other: a pattern of the filter has to match a site of one
// of them. One result for each.
REFX_API std::vector<Findings> find_sites(const Model& model,
                                          const std::vector<TransformationPtr>& transformations,
                                          const SiteFilter& filter = {});
REFX_API std::vector<Outcome> apply(Model& model,
                                    const std::vector<TransformationPtr>& transformations,
                                    const SiteFilter& filter = {}, const OnProgress& progress = {});
// Null if there is none.
REFX_API const Transformation* lookup_transformation(std::string_view name);
// Whether refx ships a transformation of this name, and results stay the same up to rounding.
REFX_API bool ships_as_exact(std::string_view name);
// Makes a transformation known to reverse(), the program's lists and the contract test.
REFX_API void register_transformation(TransformationPtr transformation);
template <class T>
void register_transformation() {
  register_transformation(std::make_shared<T>());
}

}  // namespace refx
