// SPDX-License-Identifier: Apache-2.0

#include "engine/identity_snapshot.h"

#include <torch/csrc/autograd/python_variable.h>

#include <utility>

#include "engine/mirror.h"
#include "engine/torch_fx.h"

namespace refx::fx {

namespace {

// Visits every object that survey.cpp and describe.cpp read from a GraphModule, always in the same
// order, so that the recorded row and a later one can be compared position by position. Stops as
// soon as the visitor returns false.
template <class Visitor>
class Traversal {
 public:
  explicit Traversal(Visitor& visitor) : visitor_(visitor) {}

  bool run(py::handle graph_module, const std::vector<std::string>& paths) {
    const Fx& fx = Fx::get();
    const py::object attributes = attributes_of(graph_module);
    // Only these: a GraphModule has further attributes (the graph, the code, the history itself)
    // that are not part of the model, and refx writes some of them.
    for (PyObject* name : {fx.training, fx.parameters, fx.buffers, fx.modules, fx.non_persistent})
      if (PyObject* value = find(attributes, name); value && !attribute(name, value)) return false;
    for (const std::string& path : paths) {
      const py::object found = attribute_at(graph_module, path);
      if (!object(found.ptr())) return false;
    }
    return true;
  }

 private:
  bool module(PyObject* module) {
    if (module == Py_None) return true;
    const Deeper deeper;  // limits the recursion: modules may contain themselves
    if (!visitor_.enters(module) || !visitor_.accepts(reinterpret_cast<PyObject*>(Py_TYPE(module))))
      return false;
    const py::object attributes = attributes_of(module);
    if (!visitor_.accepts_count(PyDict_GET_SIZE(attributes.ptr()))) return false;
    PyObject *name = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(attributes.ptr(), &at, &name, &value);)
      if (!attribute(name, value)) return false;
    return true;
  }

  bool attribute(PyObject* name, PyObject* value) {
    const Fx& fx = Fx::get();
    if (!visitor_.accepts(name) || !visitor_.accepts(value)) return false;
    if (name == fx.non_persistent) return names(value);
    if (!PyDict_Check(value)) return true;
    // Dicts of hooks are compared by size only: what matters is whether there are any.
    if (!visitor_.accepts_count(PyDict_GET_SIZE(value))) return false;
    const bool modules = name == fx.modules;
    if (!modules && name != fx.parameters && name != fx.buffers) return true;
    PyObject *key = nullptr, *part = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &part);)
      if (!visitor_.accepts(key) || !object(part) || (modules && !module(part))) return false;
    return true;
  }

  bool names(PyObject* set) {
    if (!visitor_.accepts_count(PyObject_Size(set))) return false;
    if (PyObject_Size(set) > 0)
      for (py::handle name : py::handle(set))
        if (!visitor_.accepts(name.ptr())) return false;
    return true;
  }

  bool object(PyObject* part) {
    if (!visitor_.accepts(part)) return false;
    if (!THPVariable_Check(part)) return true;
    // Hooks of a tensor live in its C struct, so the identity of the tensor does not show them.
    const auto* tensor = reinterpret_cast<THPVariable*>(part);
    const auto hooks = [&](PyObject* table) {
      return visitor_.accepts_count(!table || table == Py_None ? 0 : PyObject_Size(table));
    };
    return visitor_.accepts(reinterpret_cast<PyObject*>(Py_TYPE(part))) &&
           hooks(tensor->backward_hooks) && hooks(tensor->post_accumulate_grad_hooks);
  }

  Visitor& visitor_;
};

// Records the objects and the sizes of containers. A module whose hyper-parameters may be changed
// in place cannot be compared by identity: then there is no snapshot, and every read is a full one.
struct Recorder {
  std::vector<py::object>& objects;
  std::vector<std::size_t>& numbers;

  bool accepts(PyObject* object) {
    objects.push_back(py::reinterpret_borrow<py::object>(object));
    return true;
  }
  bool accepts_count(std::size_t number) {
    numbers.push_back(number);
    return true;
  }
  static bool enters(PyObject* module) { return has_fixed_parameters(module); }
};

// Compares them with the recorded ones, and returns false at the first difference.
struct Comparer {
  const std::vector<py::object>& objects;
  const std::vector<std::size_t>& numbers;
  std::size_t object = 0, number = 0;

  bool accepts(PyObject* found) {
    return object < objects.size() && objects[object++].ptr() == found;
  }
  bool accepts_count(std::size_t found) {
    return number < numbers.size() && numbers[number++] == found;
  }
  static bool enters(PyObject*) { return true; }
};

}  // namespace

void IdentitySnapshot::capture(py::handle graph_module, std::vector<std::string> attributes) {
  objects_.clear();
  numbers_.clear();
  attributes_ = std::move(attributes);
  Recorder recorder{objects_, numbers_};
  is_valid_ = Traversal(recorder).run(graph_module, attributes_);
  if (!is_valid_) forget();
}

bool IdentitySnapshot::matches(py::handle graph_module) const {
  if (!is_valid_) return false;
  Comparer comparer{objects_, numbers_};
  // A module may have lost its last parts, which the traversal alone would not notice.
  return Traversal(comparer).run(graph_module, attributes_) && comparer.object == objects_.size();
}

int IdentitySnapshot::traverse(visitproc visit, void* arg) const {
  for (const py::object& object : objects_) Py_VISIT(object.ptr());
  return 0;
}

}  // namespace refx::fx
