#pragma once

// What refx uses of torch.fx and torch.nn behind their public names, looked up once.

#include <string_view>

#include "engine/python_api.h"

namespace refx::fx {

// An attribute of torch.fx.Node. Where that is a member of a C struct, it is used where it lies.
struct Field {
  PyObject* name;
  Py_ssize_t offset;  // 0: not known
};

// Interned attribute names and types.
struct Fx {
  static const Fx& get();
  PyTypeObject* node_type;
  Field op, name, target, args, kwargs, meta, next, prev, users;
  PyObject *root, *parameters, *buffers, *modules, *training, *non_persistent, *val, *tensor_meta,
      *marks, *module_stack, *dict;
};

// An attribute, which must exist.
py::object attr(py::handle object, PyObject* name);
py::object attr(py::handle node, const Field& field);
// As object.__setattr__: Node's own looks after tables of the graph.
void set(py::handle object, PyObject* name, py::handle value);
void set(py::handle node, const Field& field, py::handle value);

// The __dict__ of a module.
py::object attributes_of(py::handle module);

// What a get_attr node reads: an attribute of an attribute of a module; None if it is not there.
py::object attribute_at(py::handle module, std::string_view path);

}  // namespace refx::fx
