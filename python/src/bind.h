#pragma once

#include <torch/csrc/utils/pybind.h>

namespace refx::python {

namespace py = pybind11;

void bind_mirror(py::module_& m);

}  // namespace refx::python
