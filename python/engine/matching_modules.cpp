// SPDX-License-Identifier: Apache-2.0

#include "engine/matching_modules.h"

#include <vector>

#include "engine/copy_module.h"

namespace refx::fx {

void MatchingModules::keep(std::string_view path, const py::object& module) {
  const py::object key = text(path);
  PyObject* modules = find(tables_.displaced, key);
  if (!modules) {
    py::list one(1);
    PyList_SET_ITEM(one.ptr(), 0, module.inc_ref().ptr());
    check(PyDict_SetItem(tables_.displaced.ptr(), key.ptr(), one.ptr()));
    return;
  }
  for (py::handle other : py::handle(modules))
    if (other.is(module)) return;
  check(PyList_Append(modules, module.ptr()));
}

// The oldest first: it is the user's own module, from before any step. The others carry the stamps
// of the steps that made them.
py::object MatchingModules::matching(ModuleId id, const py::object& current) {
  std::vector<py::object> bases;
  if (PyObject* earlier = find(tables_.displaced, text(model_.modules()[id].name)))
    for (py::handle base : py::handle(earlier))
      bases.push_back(py::reinterpret_borrow<py::object>(base));
  for (const py::object& base : bases)
    if (mirror_.matches_module(tables_, id, base)) return base;
  if (current) bases.push_back(current);
  for (const py::object& base : bases)
    if (py::object module = configured(base, id); mirror_.matches_module(tables_, id, module))
      return module;
  return configured(template_of(model_.modules()[id].type), id);
}

// A copy of `base` with the hyper-parameters and tensors of the model's module. The base
// determines everything that the model does not know: hooks, and attributes that the user set.
py::object MatchingModules::configured(py::handle base, ModuleId id) {
  const Module& module = model_.modules()[id];
  py::object result = shallow_copy(base);
  const py::object attributes = attributes_of(result);
  for (const auto& [name, value] : module.parameters)
    if (name != "bias")  // describe() adds it: not an attribute, but whether there is a tensor
      check(PyDict_SetItem(attributes.ptr(), text(name).ptr(), from_arg(tables_, value).ptr()));
  check(PyDict_SetItem(attributes.ptr(), Fx::get().training, module.training ? Py_True : Py_False));
  for (PyObject* table : {Fx::get().parameters, Fx::get().buffers}) {
    PyObject* tensors = find(attributes, table);
    PyObject *name = nullptr, *old = nullptr;
    for (Py_ssize_t at = 0; tensors && PyDict_Next(tensors, &at, &name, &old);) {
      const StateId state = model_.state().find(module.name + "." + to_string(name));
      py::object tensor = py::none();
      if (state && table == Fx::get().parameters)
        tensor = as_parameter(model_.state().tensor(state));
      else if (state)
        tensor = py::cast(at::Tensor(model_.state().tensor(state)));
      check(PyDict_SetItem(tensors, name, tensor.ptr()));
    }
  }
  stamps_.stamp_module(attributes, module.name);
  return result;
}

}  // namespace refx::fx
