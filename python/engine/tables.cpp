#include "engine/tables.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <unordered_set>

#include "engine/python_api.h"
#include "refx/error.h"

namespace refx::fx {

void Tables::grow(std::uint32_t size) {
  if (seen.size() < size) seen.resize(size);
  const std::size_t old = nodes.size();
  if (old >= size) return;
  // Once for many: a list that is appended to moves again and again.
  const py::list more(std::max(std::size_t(size), old + old / 4 + 16) - old);
  for (std::size_t i = 0; i < more.size(); ++i)
    PyList_SET_ITEM(more.ptr(), static_cast<Py_ssize_t>(i), py::none().release().ptr());
  check(PyList_SetSlice(nodes.ptr(), static_cast<Py_ssize_t>(old), static_cast<Py_ssize_t>(old),
                        more.ptr()));
}

void Tables::clear_nodes() {
  ids = py::dict();
  nodes = py::list();
  seen.clear();
}

py::object Tables::node(NodeId id) const {
  if (id.value >= nodes.size()) return py::none();
  return py::reinterpret_borrow<py::object>(PyList_GET_ITEM(nodes.ptr(), id.value));
}

NodeId Tables::id_of(py::handle node) const {
  PyObject* number = find(ids, node);
  return number ? NodeId(static_cast<std::uint32_t>(PyLong_AsUnsignedLong(number))) : NodeId{};
}

void Tables::set_id(py::handle node, NodeId id) {
  check(PyDict_SetItem(ids.ptr(), node.ptr(), py::int_(id.value).ptr()));
}

void Tables::set_node(NodeId id, py::handle node) {
  check(PyList_SetItem(nodes.ptr(), id.value, node.inc_ref().ptr()));
}

void Tables::forget_erased(const std::vector<std::uint32_t>& needed) {
  const std::unordered_set<std::uint32_t> kept(needed.begin(), needed.end());
  for (std::uint32_t number = 0; number < nodes.size(); ++number) {
    const NodeId id(number);
    const py::object erased_node = node(id);
    if (erased_node.is_none() || id_of(erased_node) || kept.count(number)) continue;
    set_node(id, py::none());
    if (number < seen.size()) seen[number] = {};
  }
}

namespace {

py::tuple identity_of(py::handle object) {
  return py::make_tuple(py::reinterpret_steal<py::object>(PyLong_FromVoidPtr(object.ptr())));
}

py::tuple value_of(py::handle object) {
  const py::handle type = py::type::handle_of(object);
  if (!PyTuple_Check(object.ptr())) return py::make_tuple(type, object);
  return py::make_tuple(type, object, py::repr(object));  // (1,) == (1.0,) == (True,)
}

}  // namespace

std::size_t Tables::place_of(py::handle object) {
  const std::size_t end = objects.size();
  auto place = [&](const py::tuple& key) {
    PyObject* found = PyDict_SetDefault(places.ptr(), key.ptr(), py::int_(end).ptr());
    if (!found) throw py::error_already_set();
    return py::handle(found).cast<std::size_t>();
  };
  auto place_of_value = [&] {
    if (THPVariable_Check(object.ptr())) return place(identity_of(object));
    try {
      return place(value_of(object));
    } catch (const py::error_already_set& error) {
      if (!error.matches(PyExc_TypeError)) throw;
      return place(identity_of(object));  // it has no hash
    }
  };
  const std::size_t found = place_of_value();
  if (found == end) objects.append(object);
  return found;
}

py::object Tables::object_at(std::size_t place) const {
  if (place >= objects.size()) throw InternalError("an object of the graph is unknown");
  return objects[place];
}

namespace {

const py::handle& naming() {
  static const py::handle module = py::module_::import("refx.fx._functions").release();
  return module;
}

// A function of a module of C stays: what it is called is asked for once.
py::object name_of_function(py::handle function) {
  static const py::dict& known = *new py::dict;
  if (PyObject* name = find(known, function)) return py::reinterpret_borrow<py::object>(name);
  py::object name = naming().attr("name_of")(function);
  if (PyCFunction_CheckExact(function.ptr())) {
    PyObject* owner = PyCFunction_GET_SELF(function.ptr());
    if (!owner || owner == Py_None || PyModule_Check(owner)) known[function] = name;
  }
  return name;
}

}  // namespace

std::string Tables::name_of(py::handle function) {
  if (PyObject* known = find(names, function)) return to_string(known);
  std::string name = to_string(name_of_function(function));
  for (PyObject* other; (other = find(functions, text(name))) && other != function.ptr();)
    name += "'";
  set_function(name, function);
  return name;
}

py::object Tables::function_of(const std::string& name) {
  const py::object key = text(name);
  if (PyObject* known = find(functions, key)) return py::reinterpret_borrow<py::object>(known);
  py::object function = naming().attr("find")(key);
  if (!PyDict_SetDefault(names.ptr(), function.ptr(), key.ptr())) throw py::error_already_set();
  check(PyDict_SetItem(functions.ptr(), key.ptr(), function.ptr()));
  return function;
}

void Tables::set_function(const std::string& name, py::handle function) {
  const py::object key = text(name);
  check(PyDict_SetItem(names.ptr(), function.ptr(), key.ptr()));
  check(PyDict_SetItem(functions.ptr(), key.ptr(), function.ptr()));
}

int Tables::traverse(visitproc visit, void* arg) const {
  for (const py::handle& table :
       {py::handle(ids), py::handle(nodes), py::handle(erased), py::handle(objects),
        py::handle(places), py::handle(names), py::handle(functions), py::handle(displaced),
        py::handle(copied_containers), py::handle(made_containers), py::handle(name_order),
        py::handle(signatures), py::handle(stamped)})
    Py_VISIT(table.ptr());
  for (const Seen& node : seen) {
    Py_VISIT(node.args.ptr());
    Py_VISIT(node.kwargs.ptr());
    Py_VISIT(node.target.ptr());
    Py_VISIT(node.type.ptr());
  }
  return 0;
}

}  // namespace refx::fx
