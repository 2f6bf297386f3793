#pragma once

#include <torch/csrc/utils/pybind.h>

#include "refx/reverse.h"

namespace refx::python {

namespace py = pybind11;

void bind_mirror(py::module_& m);
void bind_model(py::module_& m);

// 'reapply', 'refuse' or 'cascade'.
Dependents to_dependents(const std::string& text);

}  // namespace refx::python
