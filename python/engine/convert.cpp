// SPDX-License-Identifier: Apache-2.0

#include "engine/convert.h"

#include <fmt/format.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>

#include <charconv>
#include <utility>

#include "refx/error.h"
#include "util/limits.h"

namespace refx::fx {

namespace {

// The first key of a dict that stands for a named tuple: its value is the class, and the fields
// follow. A named tuple without nodes inside is kept as an object. One with nodes has to be taken
// apart, because a rewrite may replace these nodes.
constexpr const char* kNamedTuple = "refx named tuple";

Args to_items(Tables& tables, py::handle sequence, int depth) {
  Args items;
  PyObject* fast = sequence.ptr();
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(fast);
  items.reserve(static_cast<std::size_t>(size));
  for (Py_ssize_t i = 0; i < size; ++i)
    items.push_back(to_arg(tables, PySequence_Fast_GET_ITEM(fast, i), depth));
  return items;
}

bool holds_node(const Arg& arg) {
  bool any = false;
  for_each_node(arg, [&](NodeId) { any = true; });
  return any;
}

Raw to_raw(Tables& tables, py::handle value) { return Raw{std::to_string(tables.place_of(value))}; }

// `depth` is the nesting depth of the items.
Arg to_container(Tables& tables, py::handle value, int depth) {
  PyObject* object = value.ptr();
  if (PyTuple_Check(object)) {
    Tuple tuple{to_items(tables, value, depth)};
    if (PyTuple_CheckExact(object)) return tuple;
    if (!holds_node(tuple)) return to_raw(tables, value);
    Dict dict;
    dict.items.emplace_back(kNamedTuple, to_raw(tables, py::type::handle_of(value)));
    for (Arg& item : tuple.items)
      dict.items.emplace_back(static_cast<std::int64_t>(dict.items.size()), std::move(item));
    return dict;
  }
  if (PyList_Check(object)) return List{to_items(tables, value, depth)};
  if (PyDict_Check(object)) {
    Dict dict;
    PyObject *key = nullptr, *item = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &item);)
      dict.items.emplace_back(to_arg(tables, key, depth), to_arg(tables, item, depth));
    return dict;
  }
  if (PySlice_Check(object)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(object);
    return Slice{{to_arg(tables, slice->start, depth), to_arg(tables, slice->stop, depth),
                  to_arg(tables, slice->step, depth)}};
  }
  return to_raw(tables, value);
}

std::size_t index_of(const Raw& raw) {
  std::size_t index = 0;
  std::from_chars(raw.text.data(), raw.text.data() + raw.text.size(), index);
  return index;
}

struct ToPython {
  const Tables& tables;

  py::object operator()(None) const { return py::none(); }
  py::object operator()(bool v) const { return py::bool_(v); }
  py::object operator()(std::int64_t v) const { return py::int_(v); }
  py::object operator()(double v) const { return py::float_(v); }
  py::object operator()(std::complex<double> v) const {
    return py::reinterpret_steal<py::object>(PyComplex_FromDoubles(v.real(), v.imag()));
  }
  py::object operator()(const std::string& v) const { return py::str(v); }
  py::object operator()(c10::ScalarType v) const { return py::cast(v); }
  py::object operator()(c10::Device v) const { return py::cast(v); }
  py::object operator()(c10::Layout v) const { return py::cast(v); }
  py::object operator()(c10::MemoryFormat v) const { return py::cast(v); }
  py::object operator()(NodeId v) const {
    const py::object node = tables.node(v);
    if (node.is_none()) throw InternalError("a node of the graph is unknown");
    return node;
  }
  py::object operator()(const SymInt& v) const { return py::str(v.expr); }
  py::object operator()(Ellipsis) const { return py::ellipsis(); }
  py::object operator()(const Raw& v) const { return tables.object_at(index_of(v)); }
  py::object operator()(const List& v) const {
    py::list list(v.items.size());
    for (std::size_t i = 0; i < v.items.size(); ++i) list[i] = from_arg(tables, v.items[i]);
    return list;
  }
  py::object operator()(const Tuple& v) const { return from_args(tables, v.items); }
  py::object operator()(const Slice& v) const {
    const auto part = [&](std::size_t i) { return from_arg(tables, v.parts[i]); };
    PyObject* slice = PySlice_New(part(0).ptr(), part(1).ptr(), part(2).ptr());
    if (!slice) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(slice);
  }
  py::object operator()(const Dict& v) const {
    const auto* first = v.items.empty() ? nullptr : v.items[0].first.get<std::string>();
    if (first && *first == kNamedTuple) {
      py::tuple fields(v.items.size() - 1);
      for (std::size_t i = 1; i < v.items.size(); ++i)
        fields[i - 1] = from_arg(tables, v.items[i].second);
      const py::object type = from_arg(tables, v.items[0].second);
      return py::hasattr(type, "_fields") ? type(*fields) : type(fields);
    }
    py::dict dict;
    for (const auto& [key, value] : v.items) dict[from_arg(tables, key)] = from_arg(tables, value);
    return dict;
  }
};

}  // namespace

Arg to_arg(Tables& tables, py::handle value, int depth) {
  if (depth > limits::kNesting)
    throw Error(
        fmt::format("an argument of the graph is nested more than {} deep", limits::kNesting));
  PyObject* object = value.ptr();
  PyTypeObject* type = Py_TYPE(object);
  if (type == Fx::get().node_type || PyType_IsSubtype(type, Fx::get().node_type)) {
    const NodeId id = tables.id_of(value);
    if (!id)
      throw Error("the graph uses node '" + to_string(attr(value, Fx::get().name)) +
                  "' before it is defined, or a node of another graph");
    return id;
  }
  if (object == Py_None) return None{};
  // Exact types only: a derived class (an enum, torch.Size) may behave differently, and from_arg()
  // would not restore it. bool is derived from int.
  if (type == &PyBool_Type) return object == Py_True;
  if (type == &PyLong_Type) {
    int overflow = 0;  // larger integers are kept as objects
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    return overflow ? Arg(to_raw(tables, value)) : Arg(static_cast<std::int64_t>(number));
  }
  if (type == &PyFloat_Type) return PyFloat_AS_DOUBLE(object);
  if (type == &PyUnicode_Type) return to_string(value);
  if (type == &PyComplex_Type)
    return std::complex<double>(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object));
  if (object == Py_Ellipsis) return Ellipsis{};
  if (THPDtype_Check(object)) return reinterpret_cast<THPDtype*>(object)->scalar_type;
  if (THPDevice_Check(object)) return reinterpret_cast<THPDevice*>(object)->device;
  if (THPLayout_Check(object)) return reinterpret_cast<THPLayout*>(object)->layout;
  if (THPMemoryFormat_Check(object))
    return reinterpret_cast<THPMemoryFormat*>(object)->memory_format;
  return to_container(tables, value, depth + 1);
}

py::object from_arg(const Tables& tables, const Arg& arg) {
  return std::visit(ToPython{tables}, arg.value());
}

py::tuple from_args(const Tables& tables, const Args& args) {
  py::tuple tuple(args.size());
  for (std::size_t i = 0; i < args.size(); ++i) tuple[i] = from_arg(tables, args[i]);
  return tuple;
}

py::dict from_kwargs(const Tables& tables, const Kwargs& kwargs) {
  py::dict dict;
  for (const auto& [key, value] : kwargs) dict[py::str(key)] = from_arg(tables, value);
  return dict;
}

namespace {

constexpr Opcode kOpcodes[] = {Opcode::placeholder, Opcode::get_attr,    Opcode::call_function,
                               Opcode::call_module, Opcode::call_method, Opcode::output};

PyObject* opcode_text(Opcode op) {
  static PyObject** texts = [] {
    auto** all = new PyObject*[std::size(kOpcodes)];
    for (std::size_t i = 0; i < std::size(kOpcodes); ++i)
      all[i] = intern(std::string(refx::to_string(kOpcodes[i])).c_str());
    return all;
  }();
  return texts[static_cast<std::size_t>(op)];
}

}  // namespace

// The opcodes of torch.fx are interned strings, so that comparing addresses usually suffices.
Opcode to_opcode(py::handle op) {
  for (Opcode candidate : kOpcodes)
    if (opcode_text(candidate) == op.ptr()) return candidate;
  const std::string text = to_string(op);
  for (Opcode candidate : kOpcodes)
    if (refx::to_string(candidate) == text) return candidate;
  throw Error("a node has the unknown opcode '" + text + "'");
}

void set_target(Tables& tables, py::handle target, Node& node) {
  if (node.op != Opcode::call_function) {
    node.target = view(target);
    return;
  }
  node.target = tables.name_of(target);
}

std::pair<py::object, py::object> from_target(Tables& tables, const Node& node) {
  auto op = [](Opcode opcode) { return py::reinterpret_borrow<py::object>(opcode_text(opcode)); };
  if (node.op != Opcode::call_function) return {op(node.op), text(node.target)};
  if (node.target.starts_with(kOpaqueAttr))
    return {op(Opcode::get_attr), py::str(node.target.substr(kOpaqueAttr.size()))};
  return {op(node.op), tables.function_of(node.target)};
}

}  // namespace refx::fx
