// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "refx/id.h"
#include "refx/name.h"

namespace refx {

// One place where a transformation applies. A transformation gives the nodes: every node that it
// would replace, the one whose value is kept first. find_sites() adds the rest.
struct Site {
  // From the modules that the nodes belong to, as they were before the first step:
  // "encoder.0.{query,key,value}". Two sites that are found together have different names. A
  // transformation may give a name itself.
  Name name = {};
  std::vector<NodeId> nodes = {};
  // What a SiteFilter matches besides the name: the tensors that the nodes read
  // ("encoder.0.query.weight"), the nodes, with the path of their module and without, and what
  // stood in the place of these before.
  std::vector<Name> paths = {};
};

}  // namespace refx
