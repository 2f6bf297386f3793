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

// All known transformations.

using TransformationPtr = std::shared_ptr<const Transformation>;

// Every known transformation, in the order in which `all` applies them: those that ship with refx,
// then those of the user.
REFX_API const std::vector<TransformationPtr>& registry();
// Finds one by name. Throws Error, which suggests the nearest name.
REFX_API const Transformation& find_transformation(std::string_view name);
// Finds several, in the order of the names. kAll selects those whose in_all() is true.
inline constexpr std::string_view kAll = "all";
REFX_API std::vector<TransformationPtr> find_transformations(const std::vector<std::string>& names);
// Finds the sites of several transformations, or applies them one after the other. Returns a result
// for each. A pattern of the filter must match a site of at least one of them.
REFX_API std::vector<Findings> find_sites(const Model& model,
                                          const std::vector<TransformationPtr>& transformations,
                                          const SiteFilter& filter = {});
REFX_API std::vector<Outcome> apply(Model& model,
                                    const std::vector<TransformationPtr>& transformations,
                                    const SiteFilter& filter = {}, const OnProgress& progress = {});
// Returns null if there is none.
REFX_API const Transformation* lookup_transformation(std::string_view name);
// Returns true if refx ships an exact transformation of this name, now or under a former name.
REFX_API bool ships_as_exact(std::string_view name);
// Adds a transformation to the registry, so that reverse() can apply it again.
REFX_API void register_transformation(TransformationPtr transformation);
template <class T>
void register_transformation() {
  register_transformation(std::make_shared<T>());
}

}  // namespace refx
