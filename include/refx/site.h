#pragma once

#include <string>
#include <vector>

#include "refx/id.h"
#include "refx/name.h"

namespace refx {

// One place where a transformation applies.
struct Site {
  Name name;                  // stable, from module paths: "encoder.0.{query,key,value}"
  std::vector<NodeId> nodes;  // what apply() needs to find it again
};

}  // namespace refx
