// SPDX-License-Identifier: Apache-2.0

#include "engine/survey.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <utility>

#include "engine/convert.h"
#include "engine/paths.h"

namespace refx::fx {

namespace {

// Whether a module has no parameters, buffers or children.
bool is_bare(const py::dict& attributes) {
  const Fx& fx = Fx::get();
  for (PyObject* name : {fx.parameters, fx.buffers, fx.modules})
    if (PyObject* found = PyDict_GetItemWithError(attributes.ptr(), name);
        !found || !PyDict_Check(found) || PyDict_GET_SIZE(found) > 0)
      return false;
  return true;
}

// Whether the tensor is an attribute of a module. Tensors inside other objects are left alone: refx
// could not replace them without changing an object that it knows nothing about.
bool is_in_module(py::handle graph_module, std::string_view path) {
  static const py::handle type =
      py::object(py::module_::import("torch.nn").attr("Module")).release();
  const std::string_view owner = split(path).first;
  return owner.empty() || py::isinstance(attribute_at(graph_module, owner), type);
}

}  // namespace

std::vector<FxNode> nodes_of(py::handle graph_module) {
  const Fx& fx = Fx::get();
  std::vector<FxNode> nodes;
  const py::object graph = graph_module.attr("graph"), root = attr(graph, fx.root);
  nodes.reserve(py::len(graph.attr("nodes")));
  for (py::object node = attr(root, fx.next); !node.is(root);) {
    const Opcode op = to_opcode(peek(node, fx.op));
    py::object next = attr(node, fx.next);
    nodes.push_back({std::move(node), op});
    node = std::move(next);
  }
  return nodes;
}

void CalledPaths::reserve(std::size_t size) {
  paths_.reserve(size);
  index_.reserve(size);
}

void CalledPaths::insert(std::string_view path) {
  const NameKey key(path);
  if (find(key)) return;
  index_.insert(key.hash(), static_cast<std::uint32_t>(paths_.size()));
  paths_.push_back(path);
}

const std::string_view* CalledPaths::find(const NameKey& path) const {
  const std::uint32_t found =
      index_.find(path.hash(), [&](std::uint32_t i) { return paths_[i] == path.text(); });
  return found == NameIndex::kNone ? nullptr : &paths_[found];
}

Survey::Survey(py::handle graph_module) : nodes(nodes_of(graph_module)) {
  const Fx& fx = Fx::get();
  called.reserve(std::count_if(nodes.begin(), nodes.end(),
                               [](const FxNode& node) { return node.op == Opcode::call_module; }));
  std::vector<std::string> attributes;
  for (const FxNode& node : nodes) {
    if (node.op == Opcode::call_module) called.insert(view(peek(node.node, fx.target)));
    if (node.op == Opcode::get_attr) attributes.push_back(to_string(peek(node.node, fx.target)));
  }
  survey_module(graph_module, "", "");
  survey_attributes(graph_module, attributes);
}

void Survey::survey_module(py::handle module, const Name& path, std::string_view outer) {
  const Deeper deeper;
  const Fx& fx = Fx::get();
  const py::dict attributes = attributes_of(module);
  auto table = [&](PyObject* name) {
    PyObject* found = PyDict_GetItemWithError(attributes.ptr(), name);
    return found && PyDict_Check(found) ? found : nullptr;
  };
  std::string text(path);
  if (!path.empty()) text += '.';
  auto below = [&, size = text.size()](PyObject* name) {
    text.resize(size);
    return Name(text += view(name));
  };
  if (const std::string_view* own = called.find(path)) {
    modules.push_back({path, module.ptr(), outer});
    outer = *own;
  } else if (!path.empty() && is_bare(attributes)) {
    // An empty module that no node calls. It is recorded so that its name stays taken.
    modules.push_back({path, module.ptr(), outer});
  }
  PyObject *key = nullptr, *value = nullptr;
  if (PyObject* parameters = table(fx.parameters))
    for (Py_ssize_t at = 0; PyDict_Next(parameters, &at, &key, &value);)
      add_state(below(key), StateKind::parameter, true, value);
  if (PyObject* buffers = table(fx.buffers)) {
    PyObject* transient = PyDict_GetItemWithError(attributes.ptr(), fx.non_persistent);
    for (Py_ssize_t at = 0; PyDict_Next(buffers, &at, &key, &value);)
      add_state(below(key), StateKind::buffer, !(transient && PySet_Contains(transient, key) == 1),
                value);
  }
  if (PyObject* children = table(fx.modules))
    for (Py_ssize_t at = 0; PyDict_Next(children, &at, &key, &value);)
      if (value != Py_None) survey_module(value, below(key), outer);
}

void Survey::add_state(Name name, StateKind kind, bool persistent, PyObject* tensor) {
  if (!THPVariable_Check(tensor) || !THPVariable_Unpack(tensor).defined()) return;
  if (!THPVariable_CheckExact(tensor)) special.insert(name);
  states.push_back({std::move(name), kind, persistent, tensor});
}

// Tensors that get_attr nodes read and that are plain attributes, neither parameters nor buffers.
void Survey::survey_attributes(py::handle graph_module, const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::unordered_set<std::string_view> known;
  for (const FoundState& state : states) known.insert(state.name);
  std::vector<FoundState> constants;
  std::unordered_set<std::string> seen;
  for (const std::string& name : names) {
    if (known.count(name) || !seen.insert(name).second) continue;
    const py::object value = attribute_at(graph_module, name);
    if (!THPVariable_Check(value.ptr()) || !is_in_module(graph_module, name)) continue;
    kept_.push_back(value);
    if (!THPVariable_CheckExact(value.ptr())) special.insert(name);
    constants.push_back({name, StateKind::constant, false, value.ptr()});
  }
  for (FoundState& constant : constants) states.push_back(std::move(constant));
}

}  // namespace refx::fx
