// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

// How two models differ. Nodes, tensors and modules are the same thing when they have the same
// name.
struct Difference {
  // Of the values of two tensors that are otherwise alike.
  struct Values {
    std::uint64_t different = 0, of = 0;
    double max_abs = 0;  // nan if a difference is not a number
  };
  struct Line {
    std::string name;
    std::string path;           // the module it belongs to, for a node
    std::string before, after;  // its line of text; empty: it is not there
    bool moved = false;         // its place among the others is another
    std::optional<Values> values = {};
  };
  std::vector<Line> interface;  // nesting of inputs and results, ranges of symbolic sizes
  std::vector<Line> state, modules, mutations, nodes;

  bool empty() const {
    return interface.empty() && state.empty() && modules.empty() && mutations.empty() &&
           nodes.empty();
  }
};

// Looks at everything that print() shows except the marks of transformations, and at the values of
// the tensors. Linear in the size of the models, unless things stand in another order.
REFX_API Difference diff(const Model& a, const Model& b);

// In the manner of a unified diff, in graph order; empty if there is no difference.
REFX_API std::string to_text(const Difference& difference);

}  // namespace refx
