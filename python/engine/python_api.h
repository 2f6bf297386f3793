// SPDX-License-Identifier: Apache-2.0
#pragma once

// The C API of Python, with exceptions.

#include <torch/csrc/utils/pybind.h>

#include <string>
#include <string_view>

namespace refx::fx {

namespace py = pybind11;

inline PyObject* intern(const char* text) { return PyUnicode_InternFromString(text); }

inline void check(int result) {
  if (result < 0) throw py::error_already_set();
}

inline py::object owned(PyObject* object) {
  if (!object) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

// The value in a dict as a borrowed reference; null if there is none.
inline PyObject* find(py::handle dict, py::handle key) {
  PyObject* found = PyDict_GetItemWithError(dict.ptr(), key.ptr());
  if (!found && PyErr_Occurred()) throw py::error_already_set();
  return found;
}

inline py::object text(std::string_view value) {
  return owned(PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
}

// A view of the string, valid as long as the object lives.
std::string_view view(py::handle text);
inline std::string to_string(py::handle text) { return std::string(view(text)); }

}  // namespace refx::fx
