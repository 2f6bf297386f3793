// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

// The differences of two models. Nodes, tensors and modules are matched by name.
struct Difference {
  // How the values of two tensors of the same type differ.
  struct Values {
    std::uint64_t different = 0, of = 0;
    double max_abs = 0;  // NaN if a difference is NaN
  };
  struct Line {
    std::string name;
    std::string path;           // the module it belongs to, for a node
    std::string before, after;  // its line of text; empty: missing
    bool moved = false;         // its position among the others differs
    std::optional<Values> values = {};
  };
  std::vector<Line> interface;  // nesting of inputs and results, ranges of symbolic sizes
  std::vector<Line> state, modules, mutations, nodes;

  bool empty() const {
    return interface.empty() && state.empty() && modules.empty() && mutations.empty() &&
           nodes.empty();
  }
};

// Compares everything that print() shows except the marks of transformations, and the values of the
// tensors. Takes linear time, unless the order differs.
REFX_API Difference diff(const Model& a, const Model& b);

// In the style of a unified diff, in graph order; empty if there is no difference.
REFX_API std::string to_text(const Difference& difference);

}  // namespace refx
