// SPDX-License-Identifier: Apache-2.0

#include "engine/copy_module.h"

#include <torch/csrc/autograd/python_variable.h>

#include <string_view>
#include <unordered_map>

#include "engine/torch_fx.h"
#include "refx/error.h"

namespace refx::fx {

namespace {

// A shallow copy of a dict or a set; null for any other object.
py::object copy_of_table(PyObject* value) {
  if (PyDict_CheckExact(value)) return owned(PyDict_Copy(value));
  if (PyODict_CheckExact(value) && PyDict_GET_SIZE(value) == 0) return owned(PyODict_New());
  if (PySet_CheckExact(value)) return owned(PySet_New(value));
  if (PyDict_Check(value) || PyAnySet_Check(value)) return py::handle(value).attr("copy")();
  return {};
}

// A module of a type of torch.nn without tensors. The constructor of the type is not called: it
// would draw random numbers for weights, and so change the random state of the user.
py::object make_template(const std::string& type) {
  constexpr std::string_view kPrefix = "torch.nn.";
  const py::module_ nn = py::module_::import("torch.nn");
  const std::string name = type.starts_with(kPrefix) ? type.substr(kPrefix.size()) : type;
  if (!py::hasattr(nn, name.c_str()))
    throw Error("a module of type " + type + " is to come back, which is not there any more");
  const py::object cls = nn.attr(name.c_str());
  py::object module = cls.attr("__new__")(cls);
  nn.attr("Module").attr("__init__")(module);
  const py::object parameters = attr(module, Fx::get().parameters);
  parameters["weight"] = py::none();
  parameters["bias"] = py::none();
  return module;
}

}  // namespace

py::object shallow_copy(py::handle module) {
  PyTypeObject* type = Py_TYPE(module.ptr());
  static PyObject* no_args = PyTuple_New(0);
  const py::object copied = owned(type->tp_new(type, no_args, nullptr));
  const py::object attributes = owned(PyDict_Copy(attributes_of(module).ptr()));
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(attributes.ptr(), &at, &key, &value);)
    if (const py::object own = copy_of_table(value))
      check(PyDict_SetItem(attributes.ptr(), key, own.ptr()));
  check(PyObject_GenericSetDict(copied.ptr(), attributes.ptr(), nullptr));
  return copied;
}

// Only copies of the template are used. It is never freed, so that making one stays a rare event.
py::handle template_of(const std::string& type) {
  static auto* known = new std::unordered_map<std::string, py::handle>;
  auto it = known->find(type);
  if (it == known->end()) {
    it = known->emplace(type, make_template(type).release()).first;
  }
  return it->second;
}

py::object as_parameter(const at::TensorBase& tensor) {
  static const py::handle parameter =
      py::object(py::module_::import("torch.nn").attr("Parameter")).release();
  static PyObject* cls = intern("__class__");
  py::object object = py::cast(at::Tensor(tensor));
  if (reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) == THPVariableClass)
    check(PyObject_SetAttr(object.ptr(), cls, parameter.ptr()));
  return object;
}

}  // namespace refx::fx
