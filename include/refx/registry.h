#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "refx/export.h"
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
// Of patterns of a SiteFilter that match no site of these transformations, neither one that is
// there nor one that is refused or was rewritten: "'quary' matches no site; did you mean 'query'?"
REFX_API std::vector<std::string> unmatched(const std::vector<std::string>& patterns,
                                            const Model& model,
                                            const std::vector<TransformationPtr>& transformations);
// Null if there is none.
REFX_API const Transformation* lookup_transformation(std::string_view name);
// Makes a transformation known to reverse(), the program's lists and the contract test.
REFX_API void register_transformation(TransformationPtr transformation);
template <class T>
void register_transformation() {
  register_transformation(std::make_shared<T>());
}

}  // namespace refx
