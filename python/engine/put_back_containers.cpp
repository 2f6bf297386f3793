// SPDX-License-Identifier: Apache-2.0

// Containers are copied before they are written (write_modules.cpp). When every step is undone, a
// copy has the contents of its original again. Then the original is put back, so that the
// GraphModule consists of the same module objects as before the first step.

#include <algorithm>
#include <vector>

#include "engine/write.h"

namespace refx::fx {

namespace {

PyObject* table_of(py::handle module, PyObject* name) {
  PyObject* found = find(attributes_of(module), name);
  return found && PyDict_Check(found) ? found : nullptr;
}

// The module at that path; null if there is none.
py::object module_at(py::handle graph_module, std::string_view path) {
  py::object module = py::reinterpret_borrow<py::object>(graph_module);
  while (!path.empty()) {
    const auto dot = std::min(path.find('.'), path.size());
    PyObject* children = table_of(module, Fx::get().modules);
    PyObject* child = children ? find(children, text(path.substr(0, dot))) : nullptr;
    if (!child || child == Py_None) return {};
    module = py::reinterpret_borrow<py::object>(child);
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return module;
}

bool same_name(PyObject* a, PyObject* b) {
  return a == b || (PyUnicode_Check(a) && PyUnicode_Check(b) && PyUnicode_Compare(a, b) == 0);
}

// The same values under the same names, in the same order.
bool same_table(PyObject* a, PyObject* b) {
  if (!a || !b) return a == b;
  if (PyDict_GET_SIZE(a) != PyDict_GET_SIZE(b)) return false;
  PyObject *name = nullptr, *value = nullptr, *other_name = nullptr, *other_value = nullptr;
  Py_ssize_t at = 0, other_at = 0;
  while (PyDict_Next(a, &at, &name, &value) && PyDict_Next(b, &other_at, &other_name, &other_value))
    if (value != other_value || !same_name(name, other_name)) return false;
  return true;
}

bool same_set(PyObject* a, PyObject* b) {
  const int same = PyObject_RichCompareBool(a, b, Py_EQ);
  if (same < 0) throw py::error_already_set();
  return same == 1;
}

// Compares all attributes, not only tensors and children: if somebody set an attribute of the copy,
// it must stay, because the original does not have that attribute.
bool same_module(py::handle a, py::handle b) {
  if (!py::type::handle_of(a).is(py::type::handle_of(b))) return false;
  const py::object attributes = attributes_of(a), others = attributes_of(b);
  if (PyDict_GET_SIZE(attributes.ptr()) != PyDict_GET_SIZE(others.ptr())) return false;
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(attributes.ptr(), &at, &name, &value);) {
    PyObject* other = find(others, name);
    if (value == other) continue;
    if (!other) return false;
    const bool tables = PyDict_Check(value) && PyDict_Check(other);
    const bool sets = PyAnySet_Check(value) && PyAnySet_Check(other);
    if (tables ? !same_table(value, other) : !sets || !same_set(value, other)) return false;
  }
  return true;
}

}  // namespace

void put_back_containers(const Tables& tables, py::handle graph_module) {
  std::vector<std::pair<std::string, py::object>> originals;
  for (const auto& [path, module] : tables.copied_containers)
    originals.emplace_back(to_string(path), py::reinterpret_borrow<py::object>(module));
  // The innermost first: a container equals its original only after the containers inside it have
  // been put back.
  auto depth = [](const auto& entry) {
    return std::count(entry.first.begin(), entry.first.end(), '.');
  };
  std::stable_sort(originals.begin(), originals.end(),
                   [&](const auto& a, const auto& b) { return depth(a) > depth(b); });
  for (const auto& [path, original] : originals) {
    const auto [parent, name] = split(path);
    const py::object above = module_at(graph_module, parent);
    PyObject* children = above ? table_of(above, Fx::get().modules) : nullptr;
    PyObject* current = children ? find(children, text(name)) : nullptr;
    if (current && current != Py_None && same_module(current, original))
      check(PyDict_SetItem(children, text(name).ptr(), original.ptr()));
  }
}

}  // namespace refx::fx
