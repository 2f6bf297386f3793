#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "refx/transformation.h"

namespace refx {

using TransformationPtr = std::shared_ptr<const Transformation>;

// Every known transformation, in the order in which they are best applied: those of registry.def,
// then the user's.
const std::vector<TransformationPtr>& registry();
// By name; throws Error with the nearest name.
const Transformation& find_transformation(std::string_view name);
// Several, in the order of the names; kAll stands for the whole registry.
inline constexpr std::string_view kAll = "all";
std::vector<TransformationPtr> find_transformations(const std::vector<std::string>& names);
// Null if there is none.
const Transformation* lookup_transformation(std::string_view name);
// Makes a transformation known to reverse(), the program's lists and the contract test.
void register_transformation(TransformationPtr transformation);
template <class T>
void register_transformation() {
  register_transformation(std::make_shared<T>());
}

}  // namespace refx
