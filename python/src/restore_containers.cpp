// Once every step is undone, the containers that were copied to be written are as they were: then the
// ones that the GraphModule came with stand in their places again.

#include <algorithm>
#include <vector>

#include "replay.h"

namespace refx::python {

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

// The same values under the same names, in the same order.
bool same_table(PyObject* a, PyObject* b) {
  if (!a || !b) return a == b;
  if (PyDict_GET_SIZE(a) != PyDict_GET_SIZE(b)) return false;
  PyObject *name = nullptr, *value = nullptr, *other_name = nullptr, *other_value = nullptr;
  Py_ssize_t at = 0, other_at = 0;
  while (PyDict_Next(a, &at, &name, &value) && PyDict_Next(b, &other_at, &other_name, &other_value))
    if (value != other_value || (name != other_name && PyUnicode_Compare(name, other_name) != 0))
      return false;
  return true;
}

bool same_tables(py::handle a, py::handle b) {
  const Fx& fx = Fx::get();
  for (PyObject* name : {fx.parameters, fx.buffers, fx.modules})
    if (!same_table(table_of(a, name), table_of(b, name))) return false;
  return true;
}

}  // namespace

void restore_containers(py::handle owner, py::handle graph_module) {
  const py::dict copied = owner.attr("containers");
  std::vector<std::pair<std::string, py::object>> originals;
  for (const auto& [path, module] : copied)
    originals.emplace_back(to_string(path), py::reinterpret_borrow<py::object>(module));
  // The innermost first: an outer one holds the inner ones.
  auto depth = [](const auto& entry) { return std::count(entry.first.begin(), entry.first.end(), '.'); };
  std::stable_sort(originals.begin(), originals.end(),
                   [&](const auto& a, const auto& b) { return depth(a) > depth(b); });
  for (const auto& [path, original] : originals) {
    const auto [parent, name] = split(path);
    const py::object above = module_at(graph_module, parent);
    PyObject* children = above ? table_of(above, Fx::get().modules) : nullptr;
    PyObject* current = children ? find(children, text(name)) : nullptr;
    if (current && current != Py_None && same_tables(current, original))
      check(PyDict_SetItem(children, text(name).ptr(), original.ptr()));
  }
}

}  // namespace refx::python
