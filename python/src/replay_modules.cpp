// Brings the modules and tensors of a GraphModule to where the library's model of it is. Modules are
// never written into, because a traced graph shares them with the model it came from: a changed
// module is another object. The tables of names in containers keep their order.

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <optional>
#include <set>

#include "refx/registry.h"
#include "replay.h"

namespace refx::python {

namespace {

std::pair<std::string_view, std::string_view> split(std::string_view path) {
  const auto dot = path.rfind('.');
  if (dot == path.npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

py::object text(std::string_view value) {
  return owned(PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
}

PyObject* find(py::handle dict, py::handle key) {
  PyObject* found = PyDict_GetItemWithError(dict.ptr(), key.ptr());
  if (!found && PyErr_Occurred()) throw py::error_already_set();
  return found;
}

py::object attributes_of(py::handle module) { return attr(module, Fx::get().dict); }

// Another module with the same tensors, children and hooks.
py::object shallow_copy(py::handle module) {
  PyTypeObject* type = Py_TYPE(module.ptr());
  static PyObject* no_args = PyTuple_New(0);
  const py::object copied = owned(type->tp_new(type, no_args, nullptr));
  const py::object attributes = owned(PyDict_Copy(attributes_of(module).ptr()));
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(attributes.ptr(), &at, &key, &value);) {
    py::object own;
    if (PyDict_CheckExact(value))
      own = owned(PyDict_Copy(value));
    else if (PySet_CheckExact(value))
      own = owned(PySet_New(value));
    else if (PyDict_Check(value) || PyAnySet_Check(value))
      own = py::handle(value).attr("copy")();
    if (own) check(PyDict_SetItem(attributes.ptr(), key, own.ptr()));
  }
  check(PyObject_SetAttr(copied.ptr(), Fx::get().dict, attributes.ptr()));
  return copied;
}

// The very tensor, which the library keeps an eye on: nn.Parameter(tensor) is another one.
py::object as_parameter(const at::TensorBase& tensor) {
  static const py::handle parameter = py::object(py::module_::import("torch.nn").attr("Parameter")).release();
  static PyObject* cls = intern("__class__");
  py::object object = py::cast(at::Tensor(tensor));
  if (reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) == THPVariableClass)
    check(PyObject_SetAttr(object.ptr(), cls, parameter.ptr()));
  return object;
}

class ModuleFollower {
 public:
  ModuleFollower(const Mirror& mirror, const Tables& tables, py::handle graph_module)
      : mirror_(mirror),
        model_(mirror.model()),
        tables_(tables),
        order_(tables.owner.attr("order")),
        kept_(tables.owner.attr("modules")),
        copied_(tables.owner.attr("containers")),
        made_(tables.owner.attr("made_containers")) {
    containers_.emplace("", Container{py::reinterpret_borrow<py::object>(graph_module), true});
  }

  void run(const Touched& touched) {
    std::unordered_set<std::string_view> paths;
    for (const auto& [id, path] : touched.modules)
      if (paths.insert(path).second) follow_module(path);
    std::vector<std::string_view> loose;
    for (const auto& [id, name] : touched.states) {
      const std::string_view path = split(name).first;
      if (paths.count(path)) continue;
      if (!path.empty() && model_.modules().find(path)) {
        paths.insert(path);
        follow_module(path);
      } else {
        loose.push_back(name);
      }
    }
    for (std::string_view name : loose) follow_tensor(name);
    sort_tables();
  }

 private:
  struct Container {
    py::object module;
    bool writable = false;  // ours: nobody else has it
  };

  // ---- containers --------------------------------------------------------------------------------

  // The module at that path, for reading; null if there is none.
  Container* find_container(std::string_view path) {
    if (auto it = containers_.find(std::string(path)); it != containers_.end()) return &it->second;
    const auto [parent, name] = split(path);
    const Container* above = find_container(parent);
    if (!above) return nullptr;
    PyObject* module = find(attr(above->module, Fx::get().modules), text(name));
    if (!module || module == Py_None) return nullptr;
    return &containers_.emplace(path, Container{py::reinterpret_borrow<py::object>(module)}).first->second;
  }

  // For writing: made if there is none, copied if it may be shared.
  py::object container(std::string_view path) {
    Container* found = find_container(path);
    if (found && found->writable) return found->module;
    const auto [parent, name] = split(path);
    const py::object above = container(parent);
    static const py::handle plain = py::object(py::module_::import("torch.nn").attr("Module")).release();
    py::object module;
    if (!found) {
      module = plain();
      attributes_of(module)[py::handle(Fx::get().training)] = attr(above, Fx::get().training);
      made_.attr("add")(text(path));
      write(parent, Fx::get().modules, name, module);
    } else if (py::type::handle_of(found->module).is(plain)) {  // those that torch.fx makes are its own
      module = found->module;
    } else {
      module = shallow_copy(found->module);
      copied_.attr("setdefault")(text(path), found->module);
      write(parent, Fx::get().modules, name, module);
    }
    containers_[std::string(path)] = Container{module, true};
    return module;
  }

  py::dict order_of(std::string_view path, PyObject* table, py::handle names) {
    const py::tuple key = py::make_tuple(text(path), py::handle(table));
    if (PyObject* found = find(order_, key)) return py::reinterpret_borrow<py::dict>(found);
    py::dict order;
    PyObject *name = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(names.ptr(), &at, &name, &value);)
      check(PyDict_SetItem(order.ptr(), name, Py_None));
    order_[key] = order;
    return order;
  }

  // `path` must be writable.
  void write(std::string_view path, PyObject* table, std::string_view name, py::handle value) {
    const py::object names = attr(container(path), table), key = text(name);
    const py::dict order = order_of(path, table, names);
    if (!find(names, key)) {
      if (find(order, key))
        unsorted_.emplace(path, table);
      else
        check(PyDict_SetItem(order.ptr(), key.ptr(), Py_None));
    }
    check(PyDict_SetItem(names.ptr(), key.ptr(), value.ptr()));
  }

  void put(std::string_view path, PyObject* table, py::handle value) {
    const auto [parent, name] = split(path);
    write(parent, table, name, value);
  }

  void remove(std::string_view path, PyObject* table) {
    const auto [parent, name] = split(path);
    const py::object module = container(parent), names = attr(module, table), key = text(name);
    order_of(parent, table, names);
    if (find(names, key)) check(PyDict_DelItem(names.ptr(), key.ptr()));
    if (made_.size() == 0 || !made_.contains(text(parent)) || !is_empty(module)) return;
    made_.attr("discard")(text(parent));
    containers_.erase(std::string(parent));
    remove(parent, Fx::get().modules);
  }

  static bool is_empty(py::handle module) {
    for (PyObject* table : {Fx::get().parameters, Fx::get().buffers, Fx::get().modules})
      if (PyDict_Size(attr(module, table).ptr()) > 0) return false;
    return true;
  }

  void sort_tables() {
    for (const auto& [path, table] : unsorted_) {
      const Container* container = find_container(path);
      if (!container) continue;
      const py::dict names = attr(container->module, table);
      py::dict sorted;
      for (const auto& [name, unused] : order_of(path, table, names))
        if (PyObject* value = find(names, name)) sorted[name] = py::handle(value);
      for (const auto& [name, value] : names)
        if (!sorted.contains(name)) sorted[name] = value;
      PyDict_Clear(names.ptr());
      check(PyDict_Update(names.ptr(), sorted.ptr()));
    }
  }

  // ---- modules -----------------------------------------------------------------------------------

  void follow_module(std::string_view path) {
    const auto [parent, name] = split(path);
    const Container* above = find_container(parent);
    PyObject* found = above ? find(attr(above->module, Fx::get().modules), text(name)) : nullptr;
    const py::object current =
        found && found != Py_None ? py::reinterpret_borrow<py::object>(found) : py::object();
    const std::string place(path);
    if (!model_.modules().find(path)) {
      if (!current) return;
      keep(place, current);
      remove(path, Fx::get().modules);
      return;
    }
    if (current && mirror_.fits(tables_, place, current)) return;
    const py::object module = fitting(place, current);
    if (current) keep(place, current);
    put(path, Fx::get().modules, module);
  }

  py::list kept(const std::string& path) {
    PyObject* found = find(kept_, text(path));
    return found ? py::reinterpret_borrow<py::list>(found) : py::list();
  }

  void keep(const std::string& path, const py::object& module) {
    const py::object key = text(path);
    PyObject* modules = find(kept_, key);
    if (!modules) {
      py::list one;
      one.append(module);
      kept_[key] = one;
      return;
    }
    for (py::handle other : py::handle(modules))
      if (other.is(module)) return;
    check(PyList_Append(modules, module.ptr()));
  }

  // A module that is what the library has there: one that was there before, or a new one.
  py::object fitting(const std::string& path, const py::object& current) {
    const py::list earlier = kept(path);
    for (auto i = static_cast<Py_ssize_t>(earlier.size()); i-- > 0;) {
      const py::handle module = PyList_GET_ITEM(earlier.ptr(), i);
      if (mirror_.fits(tables_, path, module)) return py::reinterpret_borrow<py::object>(module);
    }
    std::vector<py::handle> bases;
    if (current) bases.push_back(current);
    for (auto i = static_cast<Py_ssize_t>(earlier.size()); i-- > 0;)
      bases.push_back(PyList_GET_ITEM(earlier.ptr(), i));
    for (py::handle base : bases)
      if (py::object module = configured(base, path); mirror_.fits(tables_, path, module))
        return module;
    return configured(template_of(model_.modules()[model_.modules().find(path)].type), path);
  }

  static py::handle template_of(const std::string& type) {
    static auto* known = new std::unordered_map<std::string, py::handle>;
    auto it = known->find(type);
    if (it == known->end()) {
      const py::object make = py::module_::import("refx.fx._replay").attr("template");
      it = known->emplace(type, make(type).release()).first;
    }
    return it->second;
  }

  py::object configured(py::handle base, const std::string& path) {
    const Module& module = model_.modules()[model_.modules().find(path)];
    py::object result = shallow_copy(base);
    const py::object attributes = attributes_of(result);
    for (const auto& [name, value] : module.parameters)
      if (name != "bias")
        check(PyDict_SetItem(attributes.ptr(), text(name).ptr(), from_arg(tables_, value).ptr()));
    check(PyDict_SetItem(attributes.ptr(), Fx::get().training, module.training ? Py_True : Py_False));
    for (PyObject* table : {Fx::get().parameters, Fx::get().buffers}) {
      const py::object tensors = attr(result, table);
      PyObject *name = nullptr, *old = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(tensors.ptr(), &at, &name, &old);) {
        const StateId id = model_.state().find(path + "." + to_string(name));
        py::object tensor = py::none();
        if (id && table == Fx::get().parameters)
          tensor = as_parameter(model_.state().tensor(id));
        else if (id)
          tensor = py::cast(at::Tensor(model_.state().tensor(id)));
        check(PyDict_SetItem(tensors.ptr(), name, tensor.ptr()));
      }
    }
    set_stamp(attributes, path);
    return result;
  }

  // A base that came with a stamp, from a history that is not this one, keeps what that says.
  void set_stamp(py::handle attributes, const std::string& path) {
    std::vector<std::string> signatures;
    if (PyObject* earlier = find(attributes, stamp()))
      for (py::handle signature : py::handle(earlier)) signatures.push_back(to_string(signature));
    if (auto found = authors().find(path); found != authors().end())
      for (const std::string& signature : found->second)
        if (std::find(signatures.begin(), signatures.end(), signature) == signatures.end())
          signatures.push_back(signature);
    if (signatures.empty()) return;
    check(PyDict_SetItem(attributes.ptr(), stamp(), py::tuple(py::cast(signatures)).ptr()));
  }

  const std::unordered_map<std::string, std::vector<std::string>>& authors() {
    if (!authors_) authors_ = mirror_.authors(tables_);
    return *authors_;
  }

  // What says, of a module or tensor, which transformations made it: it stays where a history is
  // lost, because somebody made another GraphModule of the same modules.
  static PyObject* stamp() {
    static PyObject* name = intern("_refx");
    return name;
  }

  // ---- tensors outside of modules ----------------------------------------------------------------

  void follow_tensor(std::string_view path) {
    const auto [parent, name] = split(path);
    const StateId id = model_.state().find(path);
    const StateEntry* entry = id ? &model_.state()[id] : nullptr;
    if (!entry && !find_container(parent)) return;  // it went with its container
    const py::object module = container(parent), key = text(name);
    const py::object attributes = attributes_of(module);
    auto has = [&](StateKind kind) { return entry && entry->kind == kind; };
    const py::set transient = attr(module, Fx::get().non_persistent);
    if (!has(StateKind::parameter) && find(attr(module, Fx::get().parameters), key))
      remove(path, Fx::get().parameters);
    if (!has(StateKind::buffer) && find(attr(module, Fx::get().buffers), key)) {
      remove(path, Fx::get().buffers);
      transient.attr("discard")(key);
    }
    if (!has(StateKind::constant) && find(attributes, key))
      check(PyDict_DelItem(attributes.ptr(), key.ptr()));
    if (!entry) return;
    const py::object tensor = has(StateKind::parameter) ? as_parameter(entry->tensor)
                                                        : py::cast(at::Tensor(entry->tensor));
    if (has(StateKind::constant)) {
      check(PyDict_SetItem(attributes.ptr(), key.ptr(), tensor.ptr()));
    } else {
      put(path, has(StateKind::parameter) ? Fx::get().parameters : Fx::get().buffers, tensor);
      transient.attr(has(StateKind::buffer) && !entry->persistent ? "add" : "discard")(key);
    }
    if (auto found = authors().find(std::string(path)); found != authors().end())
      check(PyObject_SetAttr(tensor.ptr(), stamp(), py::tuple(py::cast(found->second)).ptr()));
  }

  const Mirror& mirror_;
  const Model& model_;
  const Tables& tables_;
  py::dict order_, kept_, copied_;
  py::set made_;
  std::unordered_map<std::string, Container> containers_;
  std::set<std::pair<std::string, PyObject*>> unsorted_;
  std::optional<std::unordered_map<std::string, std::vector<std::string>>> authors_;
};

}  // namespace

std::unordered_map<std::string, std::vector<std::string>> Mirror::authors(const Tables& tables) const {
  const py::dict own = tables.owner.attr("signatures");  // of steps that a derived class took
  std::unordered_map<std::string, std::vector<std::string>> authors;
  for (const Step& step : model_.history()) {
    if (!lookup_transformation(step.transformation)) continue;
    std::string signature = step.signature;
    if (own.size() > 0)
      if (PyObject* found = python::find(own, py::int_(step.id.value))) signature = to_string(found);
    auto note = [&](std::string_view path) {
      auto& all = authors[std::string(path)];
      if (all.empty() || all.back() != signature) all.push_back(signature);
    };
    for (const Edit& edit : step.edits) {
      if (const auto* change = std::get_if<Change<Module>>(&edit); change && change->after)
        note(change->after->name);
      if (const auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->after) {
        const std::string_view path = split(change->after->name).first;
        note(!path.empty() && model_.modules().find(path) ? path : change->after->name);
      }
    }
  }
  return authors;
}

void follow_modules(const Mirror& mirror, const Tables& tables, py::handle graph_module,
                    const Touched& touched) {
  if (touched.states.empty() && touched.modules.empty()) return;
  ModuleFollower(mirror, tables, graph_module).run(touched);
}

void follow(const Mirror& mirror, py::handle owner, py::handle graph_module, const Touched& touched) {
  const Tables tables(owner);
  follow_modules(mirror, tables, graph_module, touched);
  follow_nodes(mirror, tables, graph_module.attr("graph"), touched.nodes);
}

}  // namespace refx::python
