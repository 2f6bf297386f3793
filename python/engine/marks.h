// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "engine/python_api.h"
#include "refx/name.h"

namespace refx::fx {

// The signatures of the transformations that marked a node. They are in its attribute
// `transformations`, a set, as in optimum.fx. Other items of that set are left alone.

// Sorted.
std::vector<Name> marks_of(py::handle node);
// Sets the marks, in any order; a node without marks does not have the attribute. The marks are
// also written into the metadata, which survives where the history does not: `reverse` reads them
// there to report that the history was lost.
void set_marks(py::handle node, std::vector<Name> marks);

}  // namespace refx::fx
