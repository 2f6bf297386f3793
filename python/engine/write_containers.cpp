// SPDX-License-Identifier: Apache-2.0

#include "engine/write_containers.h"

#include "engine/copy_module.h"
#include "engine/paths.h"
#include "refx/error.h"

namespace refx::fx {

namespace {

PyObject* table_name(ContainerWriter::TableKind kind) {
  const Fx& fx = Fx::get();
  PyObject* const names[] = {fx.parameters, fx.buffers, fx.modules};
  return names[kind];
}

// The C function for dicts is not for derived classes: an OrderedDict keeps its order outside of
// the dict.
void set_item(PyObject* table, py::handle key, py::handle value) {
  check(PyDict_CheckExact(table) ? PyDict_SetItem(table, key.ptr(), value.ptr())
                                 : PyObject_SetItem(table, key.ptr(), value.ptr()));
}

void sort(PyObject* names, PyObject* order) {
  const py::object all = owned(PyDict_Copy(names));
  py::handle(names).attr("clear")();
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(order, &at, &name, &value);)
    if (PyObject* found = find(all, name)) set_item(names, name, found);
  for (Py_ssize_t at = 0; PyDict_Next(all.ptr(), &at, &name, &value);)
    if (!find(names, name)) set_item(names, name, value);
}

}  // namespace

PyObject* ContainerWriter::Container::table(TableKind kind) const {
  PyObject* found = find(attributes, table_name(kind));
  if (!found || !PyDict_Check(found))
    throw Error("a " + std::string(Py_TYPE(module.ptr())->tp_name) + " has no table '" +
                to_string(table_name(kind)) + "', as modules have");
  return found;
}

bool ContainerWriter::Container::is_empty() const {
  for (TableKind kind : {kParameters, kBuffers, kModules})
    if (PyDict_GET_SIZE(table(kind)) > 0) return false;
  return true;
}

ContainerWriter::Container* ContainerWriter::find_container(std::string_view path) {
  if (last_ && last_->first == path) return &last_->second;
  auto it = containers_.find(path);
  if (it == containers_.end()) {
    const auto [parent, name] = split(path);
    const Container* above = find_container(parent);
    PyObject* module = above ? find(above->table(kModules), text(name)) : nullptr;
    if (!module || module == Py_None) return nullptr;
    it = containers_.emplace(path, Container(py::reinterpret_borrow<py::object>(module))).first;
  }
  last_ = &*it;
  return &it->second;
}

ContainerWriter::Container& ContainerWriter::container(std::string_view path) {
  Container* found = find_container(path);
  if (found && found->writable) return *found;
  const auto [parent, name] = split(path);
  Container& above = container(parent);
  static const py::handle plain =
      py::object(py::module_::import("torch.nn").attr("Module")).release();
  py::object module;
  if (!found) {
    module = plain();
    attributes_of(module)[py::handle(Fx::get().training)] = attr(above.module, Fx::get().training);
    tables_.made_containers.attr("add")(text(path));
    write(parent, above, kModules, name, module);
  } else if (py::type::handle_of(found->module).is(plain)) {
    found->writable = true;  // those that torch.fx makes are its own
    return *found;
  } else {
    module = shallow_copy(found->module);
    const py::object key = text(path);
    if (!find(tables_.copied_containers, key))
      check(PyDict_SetItem(tables_.copied_containers.ptr(), key.ptr(), found->module.ptr()));
    write(parent, above, kModules, name, module);
    containers_.erase(containers_.find(path));
  }
  last_ = &*containers_.emplace(path, Container(std::move(module), true)).first;
  return last_->second;
}

PyObject* ContainerWriter::order_of(std::string_view path, Container& container, TableKind kind) {
  py::object& order = container.order[kind];
  if (order) return order.ptr();
  const py::object key = owned(PyTuple_Pack(2, text(path).ptr(), table_name(kind)));
  PyObject* found = find(tables_.name_order, key);
  order = found ? py::reinterpret_borrow<py::object>(found) : py::dict();
  if (!found) check(PyDict_SetItem(tables_.name_order.ptr(), key.ptr(), order.ptr()));
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(container.table(kind), &at, &name, &value);)
    if (!PyDict_SetDefault(order.ptr(), name, Py_None)) throw py::error_already_set();
  return order.ptr();
}

void ContainerWriter::write(std::string_view path, Container& container, TableKind kind,
                            std::string_view name, py::handle value) {
  PyObject* names = container.table(kind);
  PyObject* order = order_of(path, container, kind);
  const py::object key = text(name);
  if (!find(names, key)) {
    if (find(order, key))
      container.unsorted[kind] = true;
    else
      check(PyDict_SetItem(order, key.ptr(), Py_None));
  }
  set_item(names, key, value);
}

void ContainerWriter::put(std::string_view path, TableKind kind, py::handle value) {
  const auto [parent, name] = split(path);
  write(parent, container(parent), kind, name, value);
}

void ContainerWriter::remove(std::string_view path, TableKind kind) {
  const auto [parent, name] = split(path);
  Container& above = container(parent);
  const py::object key = text(name);
  order_of(parent, above, kind);
  if (PyObject* names = above.table(kind); find(names, key))
    check(PyObject_DelItem(names, key.ptr()));
  if (!above.is_empty()) return;
  if (!is_made(parent)) return note_place(parent);
  tables_.made_containers.attr("discard")(text(parent));
  forget_container(parent);
  remove(parent, kModules);
}

bool ContainerWriter::is_made(std::string_view path) const {
  return !tables_.made_containers.empty() && tables_.made_containers.contains(text(path));
}

// Records the position of an empty container in each of its parents. Others may remove empty
// modules (delete_all_unused_submodules), and undo restores it at that position.
void ContainerWriter::note_place(std::string_view path) {
  while (!path.empty()) {
    path = split(path).first;
    order_of(path, *find_container(path), kModules);
  }
}

void ContainerWriter::sort_tables() {
  for (auto& [path, container] : containers_)
    for (TableKind kind : {kParameters, kBuffers, kModules})
      if (container.unsorted[kind]) sort(container.table(kind), order_of(path, container, kind));
}

void ContainerWriter::forget_container(std::string_view path) {
  auto it = containers_.find(path);
  if (it == containers_.end()) return;
  last_ = nullptr;
  containers_.erase(it);
}

}  // namespace refx::fx
