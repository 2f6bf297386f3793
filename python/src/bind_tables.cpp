// SPDX-License-Identifier: Apache-2.0

#include "bind.h"
#include "engine/tables.h"
#include "engine/torch_fx.h"

namespace refx::python {

using namespace fx;

namespace {

// Null while the object is being made.
Tables* tables_of(PyObject* self) {
  auto* instance = reinterpret_cast<py::detail::instance*>(self);
  const auto held = instance->get_value_and_holder();
  return held.holder_constructed() ? held.value_ptr<Tables>() : nullptr;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const Tables* tables = tables_of(self);
  return tables ? tables->traverse(visit, arg) : 0;
}

int clear(PyObject* self) {
  if (Tables* tables = tables_of(self)) const Tables gone = std::exchange(*tables, Tables());
  return 0;
}

py::list live_nodes(const Tables& tables, const std::vector<std::uint32_t>& numbers) {
  py::list live;
  for (std::uint32_t number : numbers)
    if (const py::object node = tables.node(NodeId(number)); tables.id_of(node)) live.append(node);
  return live;
}

}  // namespace

void bind_tables(py::module_& m) {
  py::class_<Tables>(m, "Tables", "The Python objects of a mirror.",
                     py::custom_type_setup([](PyHeapTypeObject* heap_type) {
                       PyTypeObject& type = heap_type->ht_type;
                       type.tp_flags |= Py_TPFLAGS_HAVE_GC;
                       type.tp_traverse = traverse;
                       type.tp_clear = clear;
                     }))
      .def(py::init<>())
      .def_readwrite("erased", &Tables::erased)
      .def_readonly("objects", &Tables::objects)
      .def_readonly("functions", &Tables::functions)
      .def_readwrite("displaced", &Tables::displaced)
      .def_readwrite("copied_containers", &Tables::copied_containers)
      .def_readwrite("made_containers", &Tables::made_containers)
      .def_readwrite("name_order", &Tables::name_order)
      .def_readwrite("signatures", &Tables::signatures)
      .def_readwrite("stamped", &Tables::stamped)
      .def(
          "node",
          [](const Tables& self, std::uint32_t number) { return self.node(NodeId(number)); },
          py::arg("number"), "The node with that number, which may have been erased, or None.")
      .def("live_nodes", &live_nodes, py::arg("numbers"),
           "The nodes with these numbers that are in the graph.")
      .def("forget_erased", &Tables::forget_erased, py::arg("needed"),
           "Releases erased nodes, except these.")
      .def("add_object", &Tables::place_of, py::arg("object"))
      .def("add_function", &Tables::set_function, py::arg("name"), py::arg("function"))
      .def("find_function", &Tables::function_of, py::arg("name"));
  m.def("attribute_at", &attribute_at, py::arg("module"), py::arg("path"),
        "The object that a get_attr node reads, or None.");
}

}  // namespace refx::python
