// SPDX-License-Identifier: Apache-2.0

#include "engine/sight.h"

#include <torch/csrc/autograd/python_variable.h>

#include <utility>

#include "engine/mirror.h"
#include "engine/torch_fx.h"

namespace refx::fx {

namespace {

// Shows an eye all that modules are read by (survey.cpp, describe.cpp), in an order that is always
// the same; until it has seen enough, and says false.
template <class Eye>
class Tour {
 public:
  explicit Tour(Eye& eye) : eye_(eye) {}

  bool run(py::handle graph_module, const std::vector<std::string>& paths) {
    const Fx& fx = Fx::get();
    const py::object attributes = attributes_of(graph_module);
    // The others are no parts of the model, and some of them refx writes.
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
    const Deeper deeper;
    if (!eye_.module(module) || !eye_.see(reinterpret_cast<PyObject*>(Py_TYPE(module))))
      return false;
    const py::object attributes = attributes_of(module);
    if (!eye_.count(PyDict_GET_SIZE(attributes.ptr()))) return false;
    PyObject *name = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(attributes.ptr(), &at, &name, &value);)
      if (!attribute(name, value)) return false;
    return true;
  }

  bool attribute(PyObject* name, PyObject* value) {
    const Fx& fx = Fx::get();
    if (!eye_.see(name) || !eye_.see(value)) return false;
    if (name == fx.non_persistent) return names(value);
    if (!PyDict_Check(value)) return true;
    if (!eye_.count(PyDict_GET_SIZE(value))) return false;  // of hooks it matters whether there are
    const bool modules = name == fx.modules;
    if (!modules && name != fx.parameters && name != fx.buffers) return true;
    PyObject *key = nullptr, *part = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &part);)
      if (!eye_.see(key) || !object(part) || (modules && !module(part))) return false;
    return true;
  }

  bool names(PyObject* set) {
    if (!eye_.count(PyObject_Size(set))) return false;
    if (PyObject_Size(set) > 0)
      for (py::handle name : py::handle(set))
        if (!eye_.see(name.ptr())) return false;
    return true;
  }

  bool object(PyObject* part) {
    if (!eye_.see(part)) return false;
    if (!THPVariable_Check(part)) return true;
    const auto* tensor = reinterpret_cast<THPVariable*>(part);
    const auto hooks = [&](PyObject* table) {
      return eye_.count(!table || table == Py_None ? 0 : PyObject_Size(table));
    };
    return eye_.see(reinterpret_cast<PyObject*>(Py_TYPE(part))) && hooks(tensor->backward_hooks) &&
           hooks(tensor->post_accumulate_grad_hooks);
  }

  Eye& eye_;
};

struct Recorder {
  std::vector<py::object>& objects;
  std::vector<std::size_t>& numbers;

  bool see(PyObject* object) {
    objects.push_back(py::reinterpret_borrow<py::object>(object));
    return true;
  }
  bool count(std::size_t number) {
    numbers.push_back(number);
    return true;
  }
  static bool module(PyObject* module) { return has_fixed_parameters(module); }
};

struct Comparer {
  const std::vector<py::object>& objects;
  const std::vector<std::size_t>& numbers;
  std::size_t object = 0, number = 0;

  bool see(PyObject* found) { return object < objects.size() && objects[object++].ptr() == found; }
  bool count(std::size_t found) { return number < numbers.size() && numbers[number++] == found; }
  static bool module(PyObject*) { return true; }
};

}  // namespace

void Sight::take(py::handle graph_module, std::vector<std::string> attributes) {
  objects_.clear();
  numbers_.clear();
  attributes_ = std::move(attributes);
  Recorder recorder{objects_, numbers_};
  taken_ = Tour(recorder).run(graph_module, attributes_);
  if (!taken_) forget();
}

bool Sight::is_same(py::handle graph_module) const {
  if (!taken_) return false;
  Comparer comparer{objects_, numbers_};
  return Tour(comparer).run(graph_module, attributes_) && comparer.object == objects_.size();
}

int Sight::traverse(visitproc visit, void* arg) const {
  for (const py::object& object : objects_) Py_VISIT(object.ptr());
  return 0;
}

}  // namespace refx::fx
