// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBase.h>

#include <string>

#include "engine/python_api.h"

namespace refx::fx {

// New module and parameter objects, made without the constructors of their types.

// Another module with the same tensors, children and hooks. Not copy.copy(): that would share the
// dicts of parameters, buffers and children, which are about to be written.
py::object shallow_copy(py::handle module);

// A module of a type of torch.nn without tensors, to make copies of. Throws Error if the type does
// not exist any more.
py::handle template_of(const std::string& type);

// Makes the tensor object itself a parameter. nn.Parameter(tensor) would make another tensor, and
// the next read would take it for a new value of the weight.
py::object as_parameter(const at::TensorBase& tensor);

}  // namespace refx::fx
