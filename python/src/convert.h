#pragma once

#include <torch/csrc/utils/pybind.h>

#include <string>

#include "refx/node.h"

namespace refx::python {

namespace py = pybind11;

// A torch.fx graph's side of a mirrored model. All Python objects live in lists and dicts that the
// Python owner holds, where the garbage collector sees them; these are borrowed for one call.
struct Tables {
  explicit Tables(py::handle owner);

  py::handle owner;
  py::dict ids;        // fx.Node -> node id
  py::list nodes;      // by node id: the fx.Node, also of an erased node; or None
  py::list seen;       // four by node id: args, kwargs, target and type as last read; or None
  py::list objects;    // arguments that refx does not interpret
  py::dict names;      // function -> its name
  py::dict functions;  // its name -> function

  void grow(std::uint32_t nodes) const;  // room for node ids below that
  PyObject* seen_at(NodeId id, int what) const {
    return PyList_GET_ITEM(seen.ptr(), 4 * Py_ssize_t(id.value) + what);
  }
  void set_seen(NodeId id, py::object args, py::object kwargs, py::object target) const;
  void set_seen_type(NodeId id, py::handle type) const;
};

// An attribute of torch.fx.Node. Where that is a member of a C struct, it is used where it lies.
struct Field {
  PyObject* name;
  Py_ssize_t offset;  // 0: not known
};

// Interned attribute names and types of torch.fx, looked up once.
struct Fx {
  static const Fx& get();
  PyTypeObject* node_type;
  Field op, name, target, args, kwargs, meta, next, prev, users;
  PyObject *root, *parameters, *buffers, *modules, *training, *non_persistent, *val, *tensor_meta,
      *marks, *module_stack, *dict;
};

// An attribute, which must exist.
py::object attr(py::handle object, PyObject* name);
py::object attr(py::handle node, const Field& field);
// As object.__setattr__: Node's own looks after tables of the graph.
void set(py::handle object, PyObject* name, py::handle value);
void set(py::handle node, const Field& field, py::handle value);

Arg to_arg(const Tables& tables, py::handle value);
py::object from_arg(const Tables& tables, const Arg& arg);
py::tuple from_args(const Tables& tables, const Args& args);
py::dict from_kwargs(const Tables& tables, const Kwargs& kwargs);

Opcode to_opcode(py::handle op);
// Sets target; and for what refx has no word for, the opcode too.
void set_target(const Tables& tables, py::handle target, Node& node);
// The torch.fx opcode and target.
std::pair<py::object, py::object> from_target(const Tables& tables, const Node& node);

// A get_attr of something that is no tensor: a call of a function that nobody knows.
inline constexpr std::string_view kOpaqueAttr = "get_attr ";

std::string to_string(py::handle text);

}  // namespace refx::python
