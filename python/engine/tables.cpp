// SPDX-License-Identifier: Apache-2.0

#include "engine/tables.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <unordered_set>

#include "engine/python_api.h"
#include "refx/error.h"

namespace refx::fx {

void Tables::grow(std::uint32_t size) {
  if (seen.size() >= size) return;
  // Somewhat more than needed: new nodes are added one by one.
  if (seen.capacity() < size) seen.reserve(size + size / 4 + 16);
  seen.resize(size);
}

void Tables::clear_nodes() {
  ids_ = {};
  seen.clear();
}

py::object Tables::node(NodeId id) const {
  if (id.value >= seen.size() || !seen[id.value].node) return py::none();
  return seen[id.value].node;
}

// Only nodes in the graph are in the index, so that an erased node has no id, but still is in
// `seen`.
NodeId Tables::id_of(py::handle node) const {
  return NodeId(
      ids_.find(spread(node.ptr()), [&](std::uint32_t id) { return seen[id].node.is(node); }));
}

void Tables::set_id(py::handle node, NodeId id) {
  const NodeId former = id_of(node);
  grow(id.value + 1);
  seen[id.value].node = py::reinterpret_borrow<py::object>(node);
  if (former) return ids_.replace(spread(node.ptr()), former.value, id.value);
  ids_.insert(spread(node.ptr()), id.value);
}

void Tables::drop_id(py::handle node) {
  if (const NodeId id = id_of(node)) ids_.erase(spread(node.ptr()), id.value);
}

void Tables::forget_erased(const std::vector<std::uint32_t>& needed) {
  const std::unordered_set<std::uint32_t> kept(needed.begin(), needed.end());
  for (std::uint32_t number = 0; number < seen.size(); ++number)
    if (seen[number].node && !id_of(seen[number].node) && !kept.count(number)) seen[number] = {};
}

namespace {

py::tuple identity_of(py::handle object) {
  return py::make_tuple(py::reinterpret_steal<py::object>(PyLong_FromVoidPtr(object.ptr())));
}

py::tuple value_of(py::handle object) {
  const py::handle type = py::type::handle_of(object);
  if (!PyTuple_Check(object.ptr())) return py::make_tuple(type, object);
  // Python compares items without their types: (1,) == (1.0,) == (True,).
  return py::make_tuple(type, object, py::repr(object));
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
    // Comparing tensors gives a tensor, not whether they are the same.
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

// The name of a function. It is cached for functions of C modules only: they are never freed, and
// nobody can give them another name.
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

Name Tables::name_of(py::handle function) {
  if (auto it = known_names_.find(function.ptr()); it != known_names_.end()) return it->second;
  if (PyObject* known = find(names, function)) return view(known);
  std::string name = to_string(name_of_function(function));
  // Two functions may have the same name, such as two lambdas. The name must identify the function.
  for (PyObject* other; (other = find(functions, text(name))) && other != function.ptr();)
    name += "'";
  set_function(name, function);
  return known_names_.emplace(function.ptr(), name).first->second;
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
       {py::handle(erased), py::handle(objects), py::handle(places), py::handle(names),
        py::handle(functions), py::handle(displaced), py::handle(copied_containers),
        py::handle(made_containers), py::handle(name_order), py::handle(signatures),
        py::handle(stamped)})
    Py_VISIT(table.ptr());
  for (const Seen& node : seen) {
    Py_VISIT(node.node.ptr());
    Py_VISIT(node.args.ptr());
    Py_VISIT(node.kwargs.ptr());
    Py_VISIT(node.target.ptr());
    Py_VISIT(node.type.ptr());
  }
  return identities.traverse(visit, arg);
}

}  // namespace refx::fx
