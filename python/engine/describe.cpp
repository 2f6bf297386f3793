// SPDX-License-Identifier: Apache-2.0

// Describes torch.nn modules as leaf modules of the library: type, hyper-parameters, and why a
// module is "custom", that is, may compute something else than its type says. Transformations
// refuse custom modules and report the reason.

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "engine/mirror.h"
#include "refx/layers.h"

namespace refx::fx {

namespace {

struct Class {
  std::string type;
  std::string custom;
  std::vector<PyObject*> constants;  // names of the attributes that are hyper-parameters
  bool rewritten =
      false;  // some transformation rewrites this type, so that reasons are of interest
  std::vector<std::string> tensors;  // names of the tensors that the type defines
};

std::string text(py::handle value) { return py::str(value).cast<std::string>(); }

// torch.nn.Linear for torch.nn.modules.linear.Linear; empty for anything else.
std::string torch_name(py::handle type) {
  static const py::handle nn = py::module_::import("torch.nn").release();
  const py::str name = type.attr("__name__");
  if (!py::hasattr(nn, name) || !py::object(nn.attr(name)).is(type)) return "";
  return "torch.nn." + text(name);
}

Class read_class(py::handle type) {
  Class info;
  info.type = torch_name(type);
  info.rewritten = is_rewritten_layer(info.type);
  info.tensors = layer_tensors(info.type);
  if (!info.type.empty()) {
    if (py::hasattr(type, "__constants__"))
      for (py::handle name : type.attr("__constants__")) {
        PyObject* interned = py::reinterpret_borrow<py::object>(name).release().ptr();
        PyUnicode_InternInPlace(&interned);
        info.constants.push_back(interned);
      }
    return info;
  }
  // A derived class has the type of the layer that it derives from, so that transformations find it
  // and can say why they refuse it.
  info.type = text(type.attr("__module__")) + "." + text(type.attr("__qualname__"));
  info.custom = "is a " + text(type.attr("__name__"));
  for (py::handle base : type.attr("__mro__"))
    if (const std::string name = torch_name(base); is_rewritten_layer(name)) {
      info.type = name;
      info.custom += ", a class derived from " + name;
      break;
    }
  return info;
}

// Cached for classes of torch.nn only. They live as long as the process; a class of the user may be
// freed, and another one may get its address.
std::unordered_map<PyObject*, std::shared_ptr<const Class>>& known_classes() {
  static auto* known = new std::unordered_map<PyObject*, std::shared_ptr<const Class>>;
  return *known;
}

std::shared_ptr<const Class> class_of(py::handle type) {
  auto& known = known_classes();
  if (auto it = known.find(type.ptr()); it != known.end()) return it->second;
  auto info = std::make_shared<const Class>(read_class(type));
  if (info->custom.empty()) known.emplace(type.inc_ref().ptr(), info);
  return info;
}

// Whether the value is immutable, so that the same object always means the same value. Exact types
// only: a derived class may be mutable.
bool is_fixed(PyObject* value) {
  if (PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      if (!is_fixed(PyTuple_GET_ITEM(value, i))) return false;
    return true;
  }
  return value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) ||
         PyFloat_CheckExact(value) || PyUnicode_CheckExact(value) || PyComplex_CheckExact(value);
}

const std::array<PyObject*, 8>& hook_names() {
  static const auto* names =
      new std::array<PyObject*, 8>{PyUnicode_InternFromString("_forward_hooks"),
                                   PyUnicode_InternFromString("_forward_pre_hooks"),
                                   PyUnicode_InternFromString("_backward_hooks"),
                                   PyUnicode_InternFromString("_backward_pre_hooks"),
                                   PyUnicode_InternFromString("_state_dict_hooks"),
                                   PyUnicode_InternFromString("_state_dict_pre_hooks"),
                                   PyUnicode_InternFromString("_load_state_dict_pre_hooks"),
                                   PyUnicode_InternFromString("_load_state_dict_post_hooks")};
  return *names;
}

PyObject* member(const py::dict& attributes, PyObject* name) {
  return PyDict_GetItemWithError(attributes.ptr(), name);
}

// The dict of a module's parameters, buffers or children. Null where the class stores them in its
// own way, as modules of TorchScript do.
PyObject* table(const py::dict& attributes, PyObject* name) {
  PyObject* found = member(attributes, name);
  return found && PyDict_Check(found) ? found : nullptr;
}

Py_ssize_t size_of(PyObject* table) {
  return PyDict_Check(table) ? PyDict_GET_SIZE(table) : PyObject_Size(table);
}

bool has_tensor_hooks(PyObject* tensor) {
  const auto* variable = reinterpret_cast<THPVariable*>(tensor);
  // These tables are null, None or a dict.
  auto any = [](PyObject* hooks) {
    return hooks && hooks != Py_None && PyObject_IsTrue(hooks) == 1;
  };
  return any(variable->backward_hooks) || any(variable->post_accumulate_grad_hooks);
}

std::string why_tensor_is_custom(PyObject* name, PyObject* tensor) {
  if (tensor == Py_None) return "";
  if (!THPVariable_CheckExact(tensor))
    return "has a " + text(py::handle(name)) + " of type " +
           text(py::type::handle_of(tensor).attr("__name__"));
  if (has_tensor_hooks(tensor)) return "has a hook on its " + text(py::handle(name));
  return "";
}

std::string why_custom(const py::dict& attributes, const Class& info) {
  for (PyObject* name : hook_names())
    if (PyObject* hooks = member(attributes, name); hooks && size_of(hooks) > 0) return "has hooks";
  // Set on the object: the class is not what runs.
  static PyObject* forward = PyUnicode_InternFromString("forward");
  if (member(attributes, forward)) return "has a forward of its own";
  const Fx& fx = Fx::get();
  if (PyObject* children = table(attributes, fx.modules); children && PyDict_GET_SIZE(children) > 0)
    return "has modules inside it";
  // For other types it does not matter: no transformation reads or replaces their tensors.
  if (!info.rewritten) return "";
  for (PyObject* tensors : {table(attributes, fx.parameters), table(attributes, fx.buffers)}) {
    if (!tensors) continue;
    PyObject *name = nullptr, *tensor = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(tensors, &at, &name, &tensor);) {
      if (std::find(info.tensors.begin(), info.tensors.end(), view(name)) == info.tensors.end())
        return "has a tensor '" + to_string(name) + "' of its own";
      if (std::string why = why_tensor_is_custom(name, tensor); !why.empty()) return why;
    }
  }
  return "";
}

}  // namespace

Module describe(Tables& tables, const Name& path, py::handle object) {
  const auto found = class_of(py::type::handle_of(object));
  const Class& info = *found;
  const py::dict attributes = attributes_of(object);
  Module module{.name = path, .type = info.type, .parameters = {}, .custom = info.custom};
  PyObject* training = member(attributes, Fx::get().training);
  module.training = training == Py_True;
  if (module.custom.empty()) module.custom = why_custom(attributes, info);
  module.parameters.reserve(info.constants.size() + 1);
  for (PyObject* name : info.constants)
    if (PyObject* value = member(attributes, name))
      module.parameters.emplace_back(to_string(name), to_arg(tables, value));
  static PyObject* bias = PyUnicode_InternFromString("bias");
  if (PyObject* parameters = table(attributes, Fx::get().parameters))
    if (PyObject* value = PyDict_GetItemWithError(parameters, bias))
      module.parameters.emplace_back("bias", value != Py_None);
  return module;
}

bool has_fixed_parameters(py::handle object) {
  // Hyper-parameters are only read of cached classes, see read_class().
  const auto found = known_classes().find(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())));
  if (found == known_classes().end()) return true;
  const py::dict attributes = attributes_of(object);
  for (PyObject* name : found->second->constants)
    if (PyObject* value = member(attributes, name); value && !is_fixed(value)) return false;
  return true;
}

bool Mirror::matches_module(Tables& tables, ModuleId id, py::handle object) const {
  const Name& path = model_.modules()[id].name;
  Module module = describe(tables, path, object);
  // A displaced module may have got hooks since. It is still the module that the model had there.
  module.custom = model_.modules()[id].custom;
  if (!(module == model_.modules()[id])) return false;
  const Fx& fx = Fx::get();
  const py::dict attributes = attributes_of(object);
  for (PyObject* tensors : {table(attributes, fx.parameters), table(attributes, fx.buffers)}) {
    PyObject *key = nullptr, *tensor = nullptr;
    for (Py_ssize_t at = 0; tensors && PyDict_Next(tensors, &at, &key, &tensor);) {
      if (tensor == Py_None) continue;
      const StateId state = model_.state().find(path + "." + to_string(key));
      if (!state || !THPVariable_Check(tensor) ||
          !model_.state().tensor(state).is_same(THPVariable_Unpack(tensor)))
        return false;
    }
  }
  return true;
}

}  // namespace refx::fx
