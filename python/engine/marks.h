// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "engine/python_api.h"
#include "refx/name.h"

namespace refx::fx {

// The signatures of the transformations that a node is marked by: its attribute `transformations`,
// a set, as in optimum.fx. Whatever else somebody put into that is left alone.

// Sorted.
std::vector<Name> marks_of(py::handle node);
// In whatever order; without any, the node has no such attribute. They are stamped into its
// metadata, too, where nobody reads them but who finds no history.
void set_marks(py::handle node, std::vector<Name> marks);

}  // namespace refx::fx
