// SPDX-License-Identifier: Apache-2.0

// Brings the modules and tensors of a GraphModule to where the library's model of it is. Modules
// are not written into, because a traced graph shares them with the model it came from: a changed
// module is another object, and so is a container, unless it is a plain nn.Module as torch.fx makes
// them. The tables of names in containers keep their order.

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "engine/write.h"
#include "refx/error.h"
#include "refx/id_set.h"
#include "refx/registry.h"

namespace refx::fx {

namespace {

// The same names and values; null for what is neither a dictionary nor a set.
py::object copy_of_table(PyObject* value) {
  if (PyDict_CheckExact(value)) return owned(PyDict_Copy(value));
  if (PyODict_CheckExact(value) && PyDict_GET_SIZE(value) == 0) return owned(PyODict_New());
  if (PySet_CheckExact(value)) return owned(PySet_New(value));
  if (PyDict_Check(value) || PyAnySet_Check(value)) return py::handle(value).attr("copy")();
  return {};
}

// Another module with the same tensors, children and hooks.
py::object shallow_copy(py::handle module) {
  PyTypeObject* type = Py_TYPE(module.ptr());
  static PyObject* no_args = PyTuple_New(0);
  const py::object copied = owned(type->tp_new(type, no_args, nullptr));
  const py::object attributes = owned(PyDict_Copy(attributes_of(module).ptr()));
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(attributes.ptr(), &at, &key, &value);)
    if (const py::object own = copy_of_table(value))
      check(PyDict_SetItem(attributes.ptr(), key, own.ptr()));
  check(PyObject_GenericSetDict(copied.ptr(), attributes.ptr(), nullptr));
  return copied;
}

// The very tensor, which the library keeps an eye on: nn.Parameter(tensor) is another one.
py::object as_parameter(const at::TensorBase& tensor) {
  static const py::handle parameter =
      py::object(py::module_::import("torch.nn").attr("Parameter")).release();
  static PyObject* cls = intern("__class__");
  py::object object = py::cast(at::Tensor(tensor));
  if (reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) == THPVariableClass)
    check(PyObject_SetAttr(object.ptr(), cls, parameter.ptr()));
  return object;
}

// A module of that type of torch.nn without tensors: its own constructor would draw random weights.
py::object make_template(const std::string& type) {
  constexpr std::string_view kPrefix = "torch.nn.";
  const py::module_ nn = py::module_::import("torch.nn");
  const std::string name = type.starts_with(kPrefix) ? type.substr(kPrefix.size()) : type;
  if (!py::hasattr(nn, name.c_str()))
    throw Error("a module of type " + type + " is to come back, which is not there any more");
  const py::object cls = nn.attr(name.c_str());
  py::object module = cls.attr("__new__")(cls);
  nn.attr("Module").attr("__init__")(module);
  const py::object parameters = attr(module, Fx::get().parameters);
  parameters["weight"] = py::none();
  parameters["bias"] = py::none();
  return module;
}

struct Hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
};

class ModuleWriter {
 public:
  ModuleWriter(const Mirror& mirror, Tables& tables, py::handle graph_module)
      : mirror_(mirror), model_(mirror.model()), tables_(tables) {
    containers_.emplace("", Container(py::reinterpret_borrow<py::object>(graph_module), true));
  }

  void run(const ChangedObjects& changed) {
    IdSet<Module> written;
    for (const auto& [id, path] : changed.modules)
      if (written.insert(id)) write_module(id, path);
    std::vector<std::string_view> loose;
    std::string_view last;  // its tensors stand together
    for (const auto& [id, name] : changed.states) {
      const std::string_view path = split(name).first;
      if (!path.empty() && path == last) continue;
      const ModuleId module = path.empty() ? ModuleId{} : model_.modules().named(path);
      if (!module || !model_.modules().contains(module)) {
        if (!module || !removed_.contains(module) || model_.state().contains(id))
          loose.push_back(name);
        continue;
      }
      last = path;
      if (written.insert(module)) write_module(module, path);
    }
    for (std::string_view name : loose) write_tensor(name);
    for (const std::string& name : left_behind_) write_tensor(name);
    sort_tables();
  }

 private:
  enum TableKind { kParameters, kBuffers, kModules, kTables };
  static PyObject* table_name(TableKind kind) {
    const Fx& fx = Fx::get();
    PyObject* const names[] = {fx.parameters, fx.buffers, fx.modules};
    return names[kind];
  }

  // A module that holds others, or tensors, under names.
  struct Container {
    explicit Container(py::object module_, bool writable_ = false)
        : module(std::move(module_)), attributes(attributes_of(module)), writable(writable_) {}
    PyObject* table(TableKind kind) const {
      PyObject* found = find(attributes, table_name(kind));
      if (!found || !PyDict_Check(found))
        throw Error("a " + std::string(Py_TYPE(module.ptr())->tp_name) + " has no table '" +
                    to_string(table_name(kind)) + "', as modules have");
      return found;
    }
    bool is_empty() const {
      for (TableKind kind : {kParameters, kBuffers, kModules})
        if (PyDict_GET_SIZE(table(kind)) > 0) return false;
      return true;
    }

    py::object module, attributes;
    bool writable;                          // ours: nobody else has it
    std::array<py::object, kTables> order;  // of the names in its tables, once asked for
    std::array<bool, kTables> unsorted = {};
  };

  // ---- containers -------------------------------------------------------------------------------

  // The module at that path, for reading; null if there is none.
  Container* find_container(std::string_view path) {
    if (last_ && last_->first == path) return &last_->second;
    auto it = containers_.find(path);
    if (it == containers_.end()) {
      const auto [parent, name] = split(path);
      const Container* above = find_container(parent);
      PyObject* module = above ? find(above->table(kModules), text(name)) : nullptr;
      if (!module || module == Py_None) return nullptr;
      it = containers_.emplace(path, Container(py::reinterpret_borrow<py::object>(module))).first;
    }
    last_ = &*it;
    return &it->second;
  }

  // For writing: made if there is none, copied if it may be shared.
  Container& container(std::string_view path) {
    Container* found = find_container(path);
    if (found && found->writable) return *found;
    const auto [parent, name] = split(path);
    Container& above = container(parent);
    static const py::handle plain =
        py::object(py::module_::import("torch.nn").attr("Module")).release();
    py::object module;
    if (!found) {
      module = plain();
      attributes_of(module)[py::handle(Fx::get().training)] =
          attr(above.module, Fx::get().training);
      tables_.made_containers.attr("add")(text(path));
      write(parent, above, kModules, name, module);
    } else if (py::type::handle_of(found->module).is(plain)) {
      found->writable = true;  // those that torch.fx makes are its own
      return *found;
    } else {
      module = shallow_copy(found->module);
      const py::object key = text(path);
      if (!find(tables_.copied_containers, key))
        check(PyDict_SetItem(tables_.copied_containers.ptr(), key.ptr(), found->module.ptr()));
      write(parent, above, kModules, name, module);
      containers_.erase(containers_.find(path));
    }
    last_ = &*containers_.emplace(path, Container(std::move(module), true)).first;
    return last_->second;
  }

  PyObject* order_of(std::string_view path, Container& container, TableKind kind) {
    py::object& order = container.order[kind];
    if (order) return order.ptr();
    const py::object key = owned(PyTuple_Pack(2, text(path).ptr(), table_name(kind)));
    PyObject* found = find(tables_.name_order, key);
    order = found ? py::reinterpret_borrow<py::object>(found) : py::dict();
    if (!found) check(PyDict_SetItem(tables_.name_order.ptr(), key.ptr(), order.ptr()));
    PyObject *name = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(container.table(kind), &at, &name, &value);)
      if (!PyDict_SetDefault(order.ptr(), name, Py_None)) throw py::error_already_set();
    return order.ptr();
  }

  void write(std::string_view path, Container& container, TableKind kind, std::string_view name,
             py::handle value) {
    PyObject* names = container.table(kind);
    PyObject* order = order_of(path, container, kind);
    const py::object key = text(name);
    if (!find(names, key)) {
      if (find(order, key))
        container.unsorted[kind] = true;
      else
        check(PyDict_SetItem(order, key.ptr(), Py_None));
    }
    set_item(names, key, value);
  }

  // A table may be an OrderedDict, which keeps its order beside the dictionary that it is.
  static void set_item(PyObject* table, py::handle key, py::handle value) {
    check(PyDict_CheckExact(table) ? PyDict_SetItem(table, key.ptr(), value.ptr())
                                   : PyObject_SetItem(table, key.ptr(), value.ptr()));
  }

  void put(std::string_view path, TableKind kind, py::handle value) {
    const auto [parent, name] = split(path);
    write(parent, container(parent), kind, name, value);
  }

  void remove(std::string_view path, TableKind kind) {
    const auto [parent, name] = split(path);
    Container& above = container(parent);
    const py::object key = text(name);
    order_of(parent, above, kind);
    if (PyObject* names = above.table(kind); find(names, key))
      check(PyObject_DelItem(names, key.ptr()));
    if (!above.is_empty()) return;
    if (!is_made(parent)) return note_place(parent);
    tables_.made_containers.attr("discard")(text(parent));
    forget_container(parent);
    remove(parent, kModules);
  }

  bool is_made(std::string_view path) const {
    return !tables_.made_containers.empty() && tables_.made_containers.contains(text(path));
  }

  // What is empty may be cleared away by others, and is to return to where it was.
  void note_place(std::string_view path) {
    while (!path.empty()) {
      path = split(path).first;
      order_of(path, *find_container(path), kModules);
    }
  }

  void sort_tables() {
    for (auto& [path, container] : containers_)
      for (TableKind kind : {kParameters, kBuffers, kModules})
        if (container.unsorted[kind]) sort(container.table(kind), order_of(path, container, kind));
  }

  static void sort(PyObject* names, PyObject* order) {
    const py::object all = owned(PyDict_Copy(names));
    py::handle(names).attr("clear")();
    PyObject *name = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(order, &at, &name, &value);)
      if (PyObject* found = find(all, name)) set_item(names, name, found);
    for (Py_ssize_t at = 0; PyDict_Next(all.ptr(), &at, &name, &value);)
      if (!find(names, name)) set_item(names, name, value);
  }

  // ---- modules ----------------------------------------------------------------------------------

  void write_module(ModuleId id, std::string_view path) {
    const auto [parent, name] = split(path);
    const Container* above = find_container(parent);
    PyObject* found = above ? find(above->table(kModules), text(name)) : nullptr;
    const py::object current =
        found && found != Py_None ? py::reinterpret_borrow<py::object>(found) : py::object();
    const bool made = is_made(path);  // for what a layer left behind
    if (!model_.modules().contains(id)) {
      if (!current || made || is_container(path, current)) return;
      keep(path, current);
      note_left_behind(path, Container(current));
      remove(path, kModules);
      forget_container(path);
      removed_.insert(id);
      return;
    }
    if (current && mirror_.matches_module(tables_, id, current)) return;
    const py::object module = matching(id, made ? py::object() : current);
    if (made)
      tables_.made_containers.attr("discard")(text(path));
    else if (current)
      keep(path, current);
    put(path, kModules, module);
    forget_container(path);
  }

  // The tensors that the model still has of a module that it has no more.
  void note_left_behind(std::string_view path, const Container& module) {
    PyObject *name = nullptr, *value = nullptr;
    for (TableKind kind : {kParameters, kBuffers})
      for (Py_ssize_t at = 0; PyDict_Next(module.table(kind), &at, &name, &value);)
        if (std::string tensor = std::string(path) + "." + to_string(name);
            model_.state().find(tensor))
          left_behind_.push_back(std::move(tensor));
  }

  // Whether the module only holds what the library has below that path.
  bool is_container(std::string_view path, const py::object& module) {
    const Container inside(module);
    if (PyDict_GET_SIZE(inside.table(kParameters)) + PyDict_GET_SIZE(inside.table(kBuffers)) > 0)
      return false;
    if (!holders_) holders_.emplace(model_);
    return holders_->contains(std::string(path));
  }

  // Another module stands at that path.
  void forget_container(std::string_view path) {
    auto it = containers_.find(path);
    if (it == containers_.end()) return;
    last_ = nullptr;
    containers_.erase(it);
  }

  void keep(std::string_view path, const py::object& module) {
    const py::object key = text(path);
    PyObject* modules = find(tables_.displaced, key);
    if (!modules) {
      py::list one(1);
      PyList_SET_ITEM(one.ptr(), 0, module.inc_ref().ptr());
      check(PyDict_SetItem(tables_.displaced.ptr(), key.ptr(), one.ptr()));
      return;
    }
    for (py::handle other : py::handle(modules))
      if (other.is(module)) return;
    check(PyList_Append(modules, module.ptr()));
  }

  // A module that is what the library has there: one that was there before, or a new one. The
  // oldest first: it was there before any step, the others say that steps made them.
  py::object matching(ModuleId id, const py::object& current) {
    std::vector<py::object> bases;
    if (PyObject* earlier = find(tables_.displaced, text(model_.modules()[id].name)))
      for (py::handle base : py::handle(earlier))
        bases.push_back(py::reinterpret_borrow<py::object>(base));
    for (const py::object& base : bases)
      if (mirror_.matches_module(tables_, id, base)) return base;
    if (current) bases.push_back(current);
    for (const py::object& base : bases)
      if (py::object module = configured(base, id); mirror_.matches_module(tables_, id, module))
        return module;
    return configured(template_of(model_.modules()[id].type), id);
  }

  static py::handle template_of(const std::string& type) {
    static auto* known = new std::unordered_map<std::string, py::handle>;
    auto it = known->find(type);
    if (it == known->end()) {
      it = known->emplace(type, make_template(type).release()).first;
    }
    return it->second;
  }

  py::object configured(py::handle base, ModuleId id) {
    const Module& module = model_.modules()[id];
    py::object result = shallow_copy(base);
    const py::object attributes = attributes_of(result);
    for (const auto& [name, value] : module.parameters)
      if (name != "bias")
        check(PyDict_SetItem(attributes.ptr(), text(name).ptr(), from_arg(tables_, value).ptr()));
    check(
        PyDict_SetItem(attributes.ptr(), Fx::get().training, module.training ? Py_True : Py_False));
    for (PyObject* table : {Fx::get().parameters, Fx::get().buffers}) {
      PyObject* tensors = find(attributes, table);
      PyObject *name = nullptr, *old = nullptr;
      for (Py_ssize_t at = 0; tensors && PyDict_Next(tensors, &at, &name, &old);) {
        const StateId state = model_.state().find(module.name + "." + to_string(name));
        py::object tensor = py::none();
        if (state && table == Fx::get().parameters)
          tensor = as_parameter(model_.state().tensor(state));
        else if (state)
          tensor = py::cast(at::Tensor(model_.state().tensor(state)));
        check(PyDict_SetItem(tensors, name, tensor.ptr()));
      }
    }
    set_stamp(attributes, module.name);
    return result;
  }

  // A base that came with a stamp, from a history that is not this one, keeps what that says; what
  // this one wrote there says only what steps that are live did.
  void set_stamp(py::handle attributes, const std::string& path) {
    std::vector<std::string> signatures;
    if (PyObject* earlier = find(attributes, stamp()); earlier && PyTuple_Check(earlier))
      for (py::handle signature : py::handle(earlier))
        if (!tables_.stamped.contains(signature)) signatures.push_back(to_string(signature));
    if (auto found = authors().find(path); found != authors().end())
      for (const std::string& signature : found->second)
        if (std::find(signatures.begin(), signatures.end(), signature) == signatures.end()) {
          signatures.push_back(signature);
          tables_.stamped.add(signature);
        }
    if (signatures.empty()) {
      if (find(attributes, stamp())) check(PyDict_DelItem(attributes.ptr(), stamp()));
      return;
    }
    check(PyDict_SetItem(attributes.ptr(), stamp(), py::tuple(py::cast(signatures)).ptr()));
  }

  const std::unordered_map<std::string, std::vector<std::string>>& authors() {
    if (!authors_) authors_ = mirror_.authors(tables_);
    return *authors_;
  }

  // What says, of a module or tensor, which transformations made it: it stays where a history is
  // lost, because somebody made another GraphModule of the same modules.
  static PyObject* stamp() {
    static PyObject* name = intern("_refx_made");
    return name;
  }

  // ---- tensors outside of modules ---------------------------------------------------------------

  void write_tensor(std::string_view path) {
    const auto [parent, name] = split(path);
    const StateId id = model_.state().find(path);
    const StateEntry* entry = id ? &model_.state()[id] : nullptr;
    if (!entry && !find_container(parent)) return;  // it went with its container
    const Container& holder = container(parent);
    const py::object module = holder.module, attributes = holder.attributes, key = text(name);
    auto has = [&](StateKind kind) { return entry && entry->kind == kind; };
    const py::set transient = attr(module, Fx::get().non_persistent);
    const bool was_parameter = find(holder.table(kParameters), key);
    const bool was_buffer = find(holder.table(kBuffers), key);
    if (was_parameter && !has(StateKind::parameter)) remove(path, kParameters);
    if (was_buffer && !has(StateKind::buffer)) {
      remove(path, kBuffers);
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
      put(path, has(StateKind::parameter) ? kParameters : kBuffers, tensor);
      transient.attr(has(StateKind::buffer) && !entry->persistent ? "add" : "discard")(key);
    }
    if (auto found = authors().find(std::string(path)); found != authors().end())
      check(PyObject_SetAttr(tensor.ptr(), stamp(), py::tuple(py::cast(found->second)).ptr()));
  }

  const Mirror& mirror_;
  const Model& model_;
  Tables& tables_;
  std::unordered_map<std::string, Container, Hash, std::equal_to<>> containers_;
  std::pair<const std::string, Container>* last_ = nullptr;  // of those, the last one asked for
  std::optional<std::unordered_map<std::string, std::vector<std::string>>> authors_;
  std::optional<Holders> holders_;  // of the model, once asked for
  std::vector<std::string> left_behind_;
  IdSet<Module> removed_;  // with their tensors
};

}  // namespace

std::unordered_map<std::string, std::vector<std::string>> Mirror::authors(
    const Tables& tables) const {
  const py::dict& own = tables.signatures;
  std::unordered_map<std::string, std::vector<std::string>> authors;
  std::pair<Name, bool> known;  // a transformation, and whether it is the library's
  for (const Step& step : model_.history()) {
    if (known.first != step.transformation)
      known = {step.transformation, lookup_transformation(step.transformation) != nullptr};
    if (!known.second) continue;
    std::string signature = step.signature;
    if (own.size() > 0)
      if (PyObject* found = fx::find(own, py::int_(step.id.value))) signature = to_string(found);
    std::string_view last;
    auto note = [&](std::string_view path) {
      if (path == std::exchange(last, path)) return;
      auto& all = authors[std::string(path)];
      if (all.empty() || all.back() != signature) all.push_back(signature);
    };
    for (const Edit& edit : step.edits) {
      if (const auto* change = std::get_if<Change<Module>>(&edit); change && change->after)
        note(change->after->name);
      if (const auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->after) {
        const std::string_view path = split(change->after->name).first;
        note(!path.empty() && model_.modules().find(path) ? path : change->after->name.view());
      }
    }
  }
  return authors;
}

void write_modules(const Mirror& mirror, Tables& tables, py::handle graph_module,
                   const ChangedObjects& changed) {
  if (changed.states.empty() && changed.modules.empty()) return;
  ModuleWriter(mirror, tables, graph_module).run(changed);
}

void write(const Mirror& mirror, Tables& tables, py::handle graph_module,
           const ChangedObjects& changed, bool hooks) {
  tables.sight.forget();
  write_modules(mirror, tables, graph_module, changed);
  const bool watched =
      write_nodes(mirror, tables, graph_module.attr("graph"), changed.nodes, hooks);
  // Somebody's hooks may have changed more. Without steps the history is dropped.
  if (!watched && mirror.has_steps()) mirror.see(tables, graph_module);
}

void write_all(const Mirror& mirror, Tables& tables, py::handle graph_module,
               ChangedObjects changed) {
  tables.sight.forget();
  const Model& model = mirror.model();
  for (ModuleId id : model.modules()) changed.modules.emplace_back(id, model.modules()[id].name);
  for (StateId id : model.state()) changed.states.emplace_back(id, model.state()[id].name);
  write_modules(mirror, tables, graph_module, changed);
  write_all_nodes(mirror, tables, graph_module.attr("graph"));
}

}  // namespace refx::fx
