// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "refx/id.h"
#include "refx/name.h"

namespace refx {

// A set of nodes that a transformation can rewrite. The transformation sets `nodes`: every node
// that it would replace, beginning with the one whose value is kept. find_sites() sets the other
// members.
struct Site {
  // Derived from the modules of the nodes before the first step: "encoder.0.{query,key,value}". It
  // is unique among the sites of one search. A transformation may choose the name itself.
  Name name = {};
  std::vector<NodeId> nodes = {};
  // What a SiteFilter matches besides the name: the tensors that the nodes read
  // ("encoder.0.query.weight"), the nodes, with and without the path of their module, and the
  // objects that they replaced.
  std::vector<Name> paths = {};
};

}  // namespace refx
