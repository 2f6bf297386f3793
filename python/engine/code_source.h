#pragma once

#include "engine/torch_fx.h"

namespace refx::fx {

// Everything in a graph that its code is generated from, by reference, in one flat list: of each
// node itself, op, name, target, args, kwargs and type; then the graph's code generator. torch.fx
// makes new args and kwargs when it changes them, so that this stays what it is.
py::list code_source(py::handle graph);

}  // namespace refx::fx
