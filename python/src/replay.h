#pragma once

#include "mirror.h"

namespace refx::python {

// The two halves of follow(), see mirror.h.
void follow_modules(const Mirror& mirror, const Tables& tables, py::handle graph_module,
                    const Touched& touched);
void follow_nodes(const Mirror& mirror, const Tables& tables, py::handle graph,
                  const std::vector<NodeId>& nodes);

// The C API, with exceptions.
inline PyObject* intern(const char* text) { return PyUnicode_InternFromString(text); }
inline void check(int result) {
  if (result < 0) throw py::error_already_set();
}
inline py::object owned(PyObject* object) {
  if (!object) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

}  // namespace refx::python
