// SPDX-License-Identifier: Apache-2.0

#include "engine/torch_fx.h"

#include <structmember.h>

#include <utility>

namespace refx::fx {

std::string_view view(py::handle text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (!data) throw py::error_already_set();
  return {data, static_cast<std::size_t>(size)};
}

namespace {

Field field(PyTypeObject* node_type, const char* name) {
  Field field{intern(name), node_type, 0};
  PyObject* found = PyObject_GetAttr(reinterpret_cast<PyObject*>(node_type), field.name);
  if (found && Py_IS_TYPE(found, &PyMemberDescr_Type)) {
    const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(found)->d_member;
    if (member->type == T_OBJECT_EX) field.offset = member->offset;
  }
  PyErr_Clear();
  Py_XDECREF(found);
  return field;
}

}  // namespace

const Fx& Fx::get() {
  static const Fx* fx = [] {
    auto* f = new Fx;
    const py::object node = py::module_::import("torch.fx").attr("Node");
    f->node_type = reinterpret_cast<PyTypeObject*>(node.inc_ref().ptr());
    f->op = field(f->node_type, "op");
    f->name = field(f->node_type, "name");
    f->target = field(f->node_type, "target");
    f->args = field(f->node_type, "_args");
    f->kwargs = field(f->node_type, "_kwargs");
    f->meta = field(f->node_type, "meta");
    f->next = field(f->node_type, "_next");
    f->prev = field(f->node_type, "_prev");
    f->users = field(f->node_type, "users");
    f->root = intern("_root");
    f->parameters = intern("_parameters");
    f->buffers = intern("_buffers");
    f->modules = intern("_modules");
    f->training = intern("training");
    f->non_persistent = intern("_non_persistent_buffers_set");
    f->val = intern("val");
    f->tensor_meta = intern("tensor_meta");
    f->marks = intern("transformations");
    f->module_stack = intern("nn_module_stack");
    return f;
  }();
  return *fx;
}

py::object attr(py::handle object, PyObject* name) {
  PyObject* value = PyObject_GetAttr(object.ptr(), name);
  if (!value) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(value);
}

void set(py::handle object, PyObject* name, py::handle value) {
  if (PyObject_GenericSetAttr(object.ptr(), name, value.ptr()) < 0) throw py::error_already_set();
}

void set(py::handle node, const Field& field, py::handle value) {
  PyObject** place = field.in(node);
  if (!place) return set(node, field.name, value);
  PyObject* old = std::exchange(*place, value.inc_ref().ptr());
  Py_XDECREF(old);
}

py::object attributes_of(py::handle object) {
  return owned(PyObject_GenericGetDict(object.ptr(), nullptr));
}

py::object attribute_at(py::handle module, std::string_view path) {
  py::object value = py::reinterpret_borrow<py::object>(module);
  for (std::size_t dot = 0; dot != path.npos;) {
    dot = path.find('.');
    PyObject* found = PyObject_GetAttr(value.ptr(), text(path.substr(0, dot)).ptr());
    if (!found && !PyErr_ExceptionMatches(PyExc_AttributeError)) throw py::error_already_set();
    if (!found) PyErr_Clear();
    value = found ? py::reinterpret_steal<py::object>(found) : py::none();
    if (dot != path.npos) path.remove_prefix(dot + 1);
  }
  return value;
}

}  // namespace refx::fx
