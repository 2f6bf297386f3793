#include "convert.h"

#include <structmember.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "refx/error.h"

namespace refx::python {

namespace {

PyObject* intern(const char* text) { return PyUnicode_InternFromString(text); }

// Marks a named tuple among the dictionaries: its class, then its fields.
constexpr const char* kNamedTuple = "refx named tuple";

Args to_items(const Tables& tables, py::handle sequence) {
  Args items;
  PyObject* fast = sequence.ptr();
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(fast);
  items.reserve(static_cast<std::size_t>(size));
  for (Py_ssize_t i = 0; i < size; ++i)
    items.push_back(to_arg(tables, PySequence_Fast_GET_ITEM(fast, i)));
  return items;
}

bool holds_node(const Arg& arg) {
  bool any = false;
  for_each_node(arg, [&](NodeId) { any = true; });
  return any;
}

// The object's place in the table. What is equal and of one type has one place, so that a value
// that was written to a file and read again is recognised.
Raw to_raw(const Tables& tables, py::handle value) {
  const py::object index = tables.owner.attr("object_index")(value);
  return Raw{std::to_string(index.cast<std::size_t>())};
}

Arg to_container(const Tables& tables, py::handle value) {
  PyObject* object = value.ptr();
  if (PyTuple_Check(object)) {
    Tuple tuple{to_items(tables, value)};
    if (PyTuple_CheckExact(object)) return tuple;
    if (!holds_node(tuple)) return to_raw(tables, value);
    Dict dict;
    dict.items.emplace_back(kNamedTuple, to_raw(tables, py::type::handle_of(value)));
    for (Arg& item : tuple.items)
      dict.items.emplace_back(static_cast<std::int64_t>(dict.items.size()), std::move(item));
    return dict;
  }
  if (PyList_Check(object)) return List{to_items(tables, value)};
  if (PyDict_Check(object)) {
    Dict dict;
    PyObject *key = nullptr, *item = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &item);)
      dict.items.emplace_back(to_arg(tables, key), to_arg(tables, item));
    return dict;
  }
  if (PySlice_Check(object)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(object);
    return Slice{
        {to_arg(tables, slice->start), to_arg(tables, slice->stop), to_arg(tables, slice->step)}};
  }
  return to_raw(tables, value);
}

py::object item_of(const py::list& list, std::size_t index) {
  if (index >= list.size()) throw InternalError("an object of the graph is unknown");
  return list[index];
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
    const py::object node = item_of(tables.nodes, v.value);
    if (node.is_none()) throw InternalError("a node of the graph is unknown");
    return node;
  }
  py::object operator()(const SymInt& v) const { return py::str(v.expr); }
  py::object operator()(Ellipsis) const { return py::ellipsis(); }
  py::object operator()(const Raw& v) const { return item_of(tables.objects, index_of(v)); }
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

Tables::Tables(py::handle owner_)
    : owner(owner_),
      ids(owner.attr("ids")),
      nodes(owner.attr("nodes")),
      seen(owner.attr("seen")),
      objects(owner.attr("objects")),
      names(owner.attr("names")),
      functions(owner.attr("functions")) {}

namespace {

void grow_list(const py::list& list, std::size_t size) {
  const std::size_t old = list.size();
  if (old >= size) return;
  // Once for many: a list that is appended to moves again and again.
  const py::list more(std::max(size, old + old / 4 + 16) - old);
  for (std::size_t i = 0; i < more.size(); ++i)
    PyList_SET_ITEM(more.ptr(), static_cast<Py_ssize_t>(i), py::none().release().ptr());
  if (PyList_SetSlice(list.ptr(), static_cast<Py_ssize_t>(old), static_cast<Py_ssize_t>(old),
                      more.ptr()) < 0)
    throw py::error_already_set();
}

}  // namespace

void Tables::grow(std::uint32_t size) const {
  grow_list(nodes, size);
  grow_list(seen, 4 * std::size_t(size));
}

void Tables::set_seen(NodeId id, py::object args, py::object kwargs, py::object target) const {
  const Py_ssize_t at = 4 * Py_ssize_t(id.value);
  PyList_SetItem(seen.ptr(), at, args.release().ptr());
  PyList_SetItem(seen.ptr(), at + 1, kwargs.release().ptr());
  PyList_SetItem(seen.ptr(), at + 2, target.release().ptr());
}

void Tables::set_seen_type(NodeId id, py::handle type) const {
  PyList_SetItem(seen.ptr(), 4 * Py_ssize_t(id.value) + 3, type.inc_ref().ptr());
}

namespace {

Field field(PyTypeObject* node_type, const char* name) {
  Field field{intern(name), 0};
  PyObject* found = PyObject_GetAttr(reinterpret_cast<PyObject*>(node_type), field.name);
  if (found && Py_IS_TYPE(found, &PyMemberDescr_Type)) {
    const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(found)->d_member;
    if (member->type == T_OBJECT_EX) field.offset = member->offset;
  }
  PyErr_Clear();
  Py_XDECREF(found);
  return field;
}

// Where the field of this very node lies; null if that is not known.
PyObject** place_of(py::handle node, const Field& field) {
  if (field.offset == 0 || Py_TYPE(node.ptr()) != Fx::get().node_type) return nullptr;
  return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(node.ptr()) + field.offset);
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
    f->marks = intern("refx");
    f->module_stack = intern("nn_module_stack");
    f->dict = intern("__dict__");
    return f;
  }();
  return *fx;
}

py::object attr(py::handle object, PyObject* name) {
  PyObject* value = PyObject_GetAttr(object.ptr(), name);
  if (!value) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(value);
}

py::object attr(py::handle node, const Field& field) {
  if (PyObject** place = place_of(node, field); place && *place)
    return py::reinterpret_borrow<py::object>(*place);
  return attr(node, field.name);
}

void set(py::handle object, PyObject* name, py::handle value) {
  if (PyObject_GenericSetAttr(object.ptr(), name, value.ptr()) < 0) throw py::error_already_set();
}

void set(py::handle node, const Field& field, py::handle value) {
  PyObject** place = place_of(node, field);
  if (!place) return set(node, field.name, value);
  PyObject* old = std::exchange(*place, value.inc_ref().ptr());
  Py_XDECREF(old);
}

std::string to_string(py::handle text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (!data) throw py::error_already_set();
  return {data, static_cast<std::size_t>(size)};
}

Arg to_arg(const Tables& tables, py::handle value) {
  PyObject* object = value.ptr();
  PyTypeObject* type = Py_TYPE(object);
  if (type == Fx::get().node_type || PyType_IsSubtype(type, Fx::get().node_type)) {
    PyObject* id = PyDict_GetItemWithError(tables.ids.ptr(), object);
    if (!id)
      throw Error("the graph uses node '" + to_string(attr(value, Fx::get().name)) +
                  "' before it is defined, or a node of another graph");
    return NodeId(static_cast<std::uint32_t>(PyLong_AsLong(id)));
  }
  if (object == Py_None) return None{};
  if (type == &PyBool_Type) return object == Py_True;
  if (type == &PyLong_Type) {
    int overflow = 0;
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
  return to_container(tables, value);
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

Opcode to_opcode(py::handle op) {
  for (Opcode candidate : kOpcodes)
    if (opcode_text(candidate) == op.ptr()) return candidate;
  const std::string text = to_string(op);
  for (Opcode candidate : kOpcodes)
    if (refx::to_string(candidate) == text) return candidate;
  throw Error("a node has the unknown opcode '" + text + "'");
}

void set_target(const Tables& tables, py::handle target, Node& node) {
  if (node.op != Opcode::call_function) {
    node.target = to_string(target);
    return;
  }
  PyObject* name = PyDict_GetItemWithError(tables.names.ptr(), target.ptr());
  if (!name && PyErr_Occurred()) throw py::error_already_set();
  node.target = name ? to_string(name) : to_string(tables.owner.attr("name_function")(target));
}

std::pair<py::object, py::object> from_target(const Tables& tables, const Node& node) {
  auto op = [](Opcode opcode) { return py::reinterpret_borrow<py::object>(opcode_text(opcode)); };
  if (node.op != Opcode::call_function) return {op(node.op), py::str(node.target)};
  if (node.target.starts_with(kOpaqueAttr))
    return {op(Opcode::get_attr), py::str(node.target.substr(kOpaqueAttr.size()))};
  const py::str name(node.target);
  PyObject* function = PyDict_GetItemWithError(tables.functions.ptr(), name.ptr());
  if (function) return {op(node.op), py::reinterpret_borrow<py::object>(function)};
  return {op(node.op), tables.owner.attr("find_function")(name)};
}

}  // namespace refx::python
