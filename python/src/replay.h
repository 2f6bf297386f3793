#pragma once

#include "mirror.h"
#include "paths.h"

namespace refx::python {

// The two halves of follow(), see mirror.h.
void follow_modules(const Mirror& mirror, const Tables& tables, py::handle graph_module,
                    const Touched& touched);
void follow_nodes(const Mirror& mirror, const Tables& tables, py::handle graph,
                  const std::vector<NodeId>& nodes, bool hooks);
void restore_nodes(const Mirror& mirror, const Tables& tables, py::handle graph);

// The C API, with exceptions.
inline PyObject* intern(const char* text) { return PyUnicode_InternFromString(text); }
inline void check(int result) {
  if (result < 0) throw py::error_already_set();
}
inline py::object owned(PyObject* object) {
  if (!object) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

// A dictionary's value, borrowed; null if there is none.
inline PyObject* find(py::handle dict, py::handle key) {
  PyObject* found = PyDict_GetItemWithError(dict.ptr(), key.ptr());
  if (!found && PyErr_Occurred()) throw py::error_already_set();
  return found;
}
inline py::object text(std::string_view value) {
  return owned(PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
}

// The __dict__ of a module.
inline py::object attributes_of(py::handle module) {
  return owned(PyObject_GenericGetDict(module.ptr(), nullptr));
}

}  // namespace refx::python
