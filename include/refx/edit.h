// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "refx/module.h"
#include "refx/node.h"
#include "refx/state.h"

namespace refx {

// One change of one object: its value before and after, null where it did not exist. A plain value,
// so a journal of changes can be printed, saved, loaded, and replayed in both directions.
template <class T>
struct Change {
  Id<T> id;
  std::shared_ptr<const T> before, after;
};
using Edit = std::variant<Change<Node>, Change<StateEntry>, Change<Module>>;

// Describes a tensor that a step made as a concatenation of earlier tensors:
//   whole.narrow(dim, start, length) == part, up to reshape.
// With it, reverse() can carry changed values back, and files store the originals as slices.
struct Piece {
  StateId whole;  // a state entry that the step wrote
  StateId part;   // a state entry before the step; no id if this piece is constant
  std::int64_t dim = 0, start = 0, length = 0;
  double fill = 0;  // the constant, when there is no part
};

}  // namespace refx
