// SPDX-License-Identifier: Apache-2.0
#pragma once

// What refx uses of torch.fx and torch.nn behind their public names, looked up once.

#include <string_view>

#include "engine/python_api.h"

namespace refx::fx {

// An attribute of torch.fx.Node. Where that is a member of a C struct, it is used where it lies.
struct Field {
  PyObject* name;
  PyTypeObject* type;  // of the nodes that have it there
  Py_ssize_t offset;   // 0: not known

  // Where it lies in this very node; null if that is not known.
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
// The same, borrowed: to look at what a node holds without touching it.
inline PyObject* peek(py::handle node, const Field& field) {
  if (PyObject** place = field.in(node); place && *place) return *place;
  return attr(node, field.name).ptr();
}
// As object.__setattr__: Node's own looks after tables of the graph.
void set(py::handle object, PyObject* name, py::handle value);
void set(py::handle node, const Field& field, py::handle value);

// As a call in Python: a module that is inside itself is an error there.
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
