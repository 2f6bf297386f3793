// SPDX-License-Identifier: Apache-2.0

#include "engine/values.h"

#include <c10/core/SymInt.h>
#include <fmt/format.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>

#include "engine/convert.h"
#include "engine/marks.h"
#include "engine/mirror.h"
#include "refx/error.h"

namespace refx::fx {

namespace {

TypePtr type_of_fake(const at::Tensor& tensor) {
  auto type = std::make_shared<TensorType>();
  type->dtype = tensor.scalar_type();
  type->device = tensor.device();
  for (const c10::SymInt& size : tensor.sym_sizes()) {
    const auto number = size.maybe_as_int();
    type->sizes.push_back(number ? Dim(*number) : Dim("s", -1));
  }
  return type;
}

// The type of a value from the metadata of its node: the `val` of torch.export, or the
// `tensor_meta` of ShapeProp. Null if there is neither, or for tensors that are not strided.
TypePtr type_of_meta(PyObject* source) {
  if (!source) return nullptr;
  if (THPVariable_Check(source)) {
    const at::Tensor& tensor = THPVariable_Unpack(source);
    return tensor.layout() == c10::kStrided ? type_of_fake(tensor) : nullptr;
  }
  const py::handle meta(source);
  if (!PyTuple_Check(source) || !py::hasattr(meta, "shape") || !py::hasattr(meta, "dtype"))
    return nullptr;
  const py::object dtype = meta.attr("dtype");
  if (!THPDtype_Check(dtype.ptr())) return nullptr;
  auto type = std::make_shared<TensorType>();
  type->dtype = reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
  for (py::handle size : meta.attr("shape"))
    type->sizes.push_back(PyLong_CheckExact(size.ptr()) ? Dim(size.cast<std::int64_t>())
                                                        : Dim("s", -1));
  return type;
}

PyObject* type_source(const FxNode& fx_node, py::handle meta) {
  if (fx_node.op == Opcode::get_attr || PyDict_Size(meta.ptr()) == 0) return Py_None;
  PyObject* source = PyDict_GetItemWithError(meta.ptr(), Fx::get().val);
  if (!source) source = PyDict_GetItemWithError(meta.ptr(), Fx::get().tensor_meta);
  return source ? source : Py_None;
}

}  // namespace

StateEntry Values::entry_of(const FoundState& found) const {
  return {found.name, found.kind, found.persistent, THPVariable_Unpack(found.tensor)};
}

Module Values::module_of(const FoundModule& found) const {
  Module module = describe(tables_, found.path, found.module);
  if (module.custom.empty() && !found.outer.empty())
    module.custom = fmt::format("is part of module '{}', which is called too", found.outer);
  return module;
}

// The metadata of a call: only the innermost module that made it. The library uses it to name
// sites. Calls in the same module share one object.
MetaPtr Values::meta_of(py::handle meta) {
  PyObject* stack = PyDict_GetItemWithError(meta.ptr(), Fx::get().module_stack);
  if (!stack || !PyDict_Check(stack) || PyDict_Size(stack) == 0) return nullptr;
  PyObject *key = nullptr, *value = nullptr, *last = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(stack, &at, &key, &value);) last = value;
  if (!PyTuple_Check(last) || PyTuple_GET_SIZE(last) == 0) return nullptr;
  PyObject* path = PyTuple_GET_ITEM(last, 0);
  if (!PyUnicode_Check(path) || PyUnicode_GET_LENGTH(path) == 0) return nullptr;
  MetaPtr& shared = metas_[path];
  if (!shared) {
    shared = std::make_shared<const Meta>(
        Meta{{"nn_module_stack", fmt::format("{0},{0},", view(path))}});
    texts_.push_back(py::reinterpret_borrow<py::object>(path));
  }
  return shared;
}

// Uses the Name object of the model's module or tensor, so that nodes share its text.
void Values::set_target(py::handle target, Node& node) {
  switch (node.op) {
    case Opcode::call_module: {
      const ModuleId module = model_.modules().find(view(target));
      if (!module)
        throw Error(fmt::format("node '{}' calls module '{}', which the GraphModule does not have",
                                node.name, view(target)));
      node.target = model_.modules()[module].name;
      return;
    }
    case Opcode::get_attr: {
      const StateId state = model_.state().find(view(target));
      if (state && !survey_.special.count(model_.state()[state].name)) {
        node.target = model_.state()[state].name;
        return;
      }
      // Not a plain tensor: an object, or a tensor of a derived class. Transformations must not
      // interpret it, as they do not interpret an unknown function.
      node.op = Opcode::call_function;
      node.target = std::string(kOpaqueAttr) + to_string(target);
      return;
    }
    case Opcode::call_method: {
      Name& method = methods_[target.ptr()];
      if (method.empty()) {
        method = view(target);
        texts_.push_back(py::reinterpret_borrow<py::object>(target));
      }
      node.target = method;
      return;
    }
    default:
      fx::set_target(tables_, target, node);
  }
}

Node Values::node_of(const FxNode& fx_node, py::handle meta) {
  const Fx& fx = Fx::get();
  Node node{.op = fx_node.op, .name = view(attr(fx_node.node, fx.name))};
  set_target(attr(fx_node.node, fx.target), node);
  const py::object args = attr(fx_node.node, fx.args);
  node.args.reserve(static_cast<std::size_t>(PyTuple_GET_SIZE(args.ptr())));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args.ptr()); ++i)
    node.args.push_back(to_arg(tables_, PyTuple_GET_ITEM(args.ptr(), i)));
  const py::object kwargs = attr(fx_node.node, fx.kwargs);
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(kwargs.ptr(), &at, &key, &value);)
    node.kwargs.emplace_back(to_string(key), to_arg(tables_, value));
  PyObject* source = type_source(fx_node, meta);
  node.type = type_of_meta(source == Py_None ? nullptr : source);
  if (node.op == Opcode::call_function || node.op == Opcode::call_method) node.meta = meta_of(meta);
  node.marks = marks_of(fx_node.node);
  return node;
}

void Values::remember(NodeId id, const FxNode& fx_node, py::handle meta) {
  const Fx& fx = Fx::get();
  tables_.grow(id.value + 1);
  tables_.seen[id.value] = {fx_node.node, attr(fx_node.node, fx.args),
                            attr(fx_node.node, fx.kwargs), attr(fx_node.node, fx.target),
                            py::reinterpret_borrow<py::object>(type_source(fx_node, meta))};
}

bool is_as_remembered(const Tables& tables, NodeId id, const FxNode& fx_node, py::handle meta) {
  // Identity is enough: torch.fx replaces these objects when it changes a node, and `seen` owns the
  // former ones, so that no address is reused.
  const Fx& fx = Fx::get();
  const Tables::Seen& seen = tables.seen[id.value];
  return seen.args.ptr() == peek(fx_node.node, fx.args) &&
         seen.kwargs.ptr() == peek(fx_node.node, fx.kwargs) &&
         seen.target.ptr() == peek(fx_node.node, fx.target) &&
         seen.type.ptr() == type_source(fx_node, meta);
}

}  // namespace refx::fx
