// SPDX-License-Identifier: Apache-2.0
#pragma once

// Private attributes of torch.fx and torch.nn that refx uses, looked up once.

#include <string_view>

#include "engine/python_api.h"

namespace refx::fx {

// An attribute of torch.fx.Node. In newer versions of torch it is a member of a C struct, and is
// then accessed directly, without a lookup by name.
struct Field {
  PyObject* name;
  PyTypeObject* type;  // of the nodes that have it there
  Py_ssize_t offset;   // 0: not known

  // Its address in this node; null if it is not known, as for a derived class of Node.
  PyObject** in(py::handle node) const {
    if (offset == 0 || Py_TYPE(node.ptr()) != type) return nullptr;
    return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(node.ptr()) + offset);
  }
};

// Interned attribute names and types.
struct Fx {
  static const Fx& get();
  PyTypeObject* node_type;
  Field op, name, target, args, kwargs, meta, next, prev, users;
  PyObject *root, *parameters, *buffers, *modules, *training, *non_persistent, *val, *tensor_meta,
      *marks, *module_stack;
};

// An attribute, which must exist.
py::object attr(py::handle object, PyObject* name);
inline py::object attr(py::handle node, const Field& field) {
  if (PyObject** place = field.in(node); place && *place)
    return py::reinterpret_borrow<py::object>(*place);
  return attr(node, field.name);
}
// The same as a borrowed reference, without changing the reference count.
inline PyObject* peek(py::handle node, const Field& field) {
  if (PyObject** place = field.in(node); place && *place) return *place;
  return attr(node, field.name).ptr();
}
// Like object.__setattr__. Node.__setattr__ would also update tables of the graph.
void set(py::handle object, PyObject* name, py::handle value);
void set(py::handle node, const Field& field, py::handle value);

// Counts as a Python call, so that a module that contains itself raises RecursionError.
struct Deeper {
  Deeper() {
    if (Py_EnterRecursiveCall(" while the modules are read") != 0) throw py::error_already_set();
  }
  ~Deeper() { Py_LeaveRecursiveCall(); }
};

// The __dict__ of a module or a node.
py::object attributes_of(py::handle object);

// What a get_attr node reads: an attribute of an attribute of a module; None if it is not there.
py::object attribute_at(py::handle module, std::string_view path);

}  // namespace refx::fx
