// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "refx/module.h"
#include "refx/node.h"
#include "refx/state.h"

namespace refx {

// One change of one object: what it was and what it became. Null: it was not there. A plain value,
// so a journal of them prints, saves, loads, and replays in both directions.
template <class T>
struct Change {
  Id<T> id;
  std::shared_ptr<const T> before, after;
};
using Edit = std::variant<Change<Node>, Change<StateEntry>, Change<Module>>;

// How a tensor that a step made is composed of tensors that were there before:
//   whole.narrow(dim, start, length) == part, up to reshape.
// It lets reverse() carry a changed value back, and lets files store the originals as slices.
struct Piece {
  StateId whole;  // a state entry that the step wrote
  StateId part;   // a state entry as it was before the step; no id: this piece is constant
  std::int64_t dim = 0, start = 0, length = 0;
  double fill = 0;  // the constant, when there is no part
};

}  // namespace refx
