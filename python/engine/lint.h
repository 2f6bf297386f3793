#pragma once

#include "engine/torch_fx.h"

namespace refx::fx {

// Whether torch.fx's Graph.lint would find nothing in the graph. False: ask it, for it says what.
bool passes_lint(py::handle graph);

}  // namespace refx::fx
