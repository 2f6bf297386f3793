// SPDX-License-Identifier: Apache-2.0

// Makes the modules and tensors of a GraphModule equal to those of the model. Existing modules are
// not modified, because a traced GraphModule shares them with the module that it was traced from: a
// changed module is a new object, and a container is copied before it is written. Plain nn.Module
// containers are the exception: torch.fx makes them for the GraphModule alone. The dicts of
// containers keep the order of their names, which is the order of state_dict().

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/copy_module.h"
#include "engine/matching_modules.h"
#include "engine/module_stamps.h"
#include "engine/write.h"
#include "engine/write_containers.h"
#include "refx/id_set.h"

namespace refx::fx {

namespace {

// Writes the modules and tensors that changed, one after the other.
class ModuleWriter {
 public:
  ModuleWriter(const Mirror& mirror, Tables& tables, py::handle graph_module)
      : mirror_(mirror),
        model_(mirror.model()),
        tables_(tables),
        stamps_(mirror, tables),
        matching_(mirror, tables, stamps_),
        containers_(tables, graph_module) {}

  void run(const ChangedObjects& changed) {
    IdSet<Module> written;
    for (const auto& [id, path] : changed.modules)
      if (written.insert(id)) write_module(id, path);
    std::vector<std::string_view> loose;
    std::string_view last;  // the tensors of a module are adjacent: write it once
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
    // After the modules: a tensor may be stored in a container that writing a module created.
    for (std::string_view name : loose) write_tensor(name);
    for (const std::string& name : left_behind_) write_tensor(name);
    containers_.sort_tables();
  }

 private:
  using Container = ContainerWriter::Container;
  using TableKind = ContainerWriter::TableKind;
  using enum ContainerWriter::TableKind;

  // ---- modules ----------------------------------------------------------------------------------

  void write_module(ModuleId id, std::string_view path) {
    const auto [parent, name] = split(path);
    const Container* above = containers_.find_container(parent);
    PyObject* found = above ? find(above->table(kModules), text(name)) : nullptr;
    const py::object current =
        found && found != Py_None ? py::reinterpret_borrow<py::object>(found) : py::object();
    const bool made = containers_.is_made(path);  // for what a layer left behind
    if (!model_.modules().contains(id)) {
      if (!current || made || is_container(path, current)) return;
      matching_.keep(path, current);
      note_left_behind(path, Container(current));
      containers_.remove(path, kModules);
      containers_.forget_container(path);
      removed_.insert(id);
      return;
    }
    if (current && mirror_.matches_module(tables_, id, current)) return;
    const py::object module = matching_.matching(id, made ? py::object() : current);
    if (made)
      tables_.made_containers.attr("discard")(text(path));
    else if (current)
      matching_.keep(path, current);
    containers_.put(path, kModules, module);
    containers_.forget_container(path);
  }

  // Notes the tensors of a removed module that the model still has, because other nodes read them.
  // They are written into a new container at the same path.
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

  // ---- tensors outside of modules ---------------------------------------------------------------

  void write_tensor(std::string_view path) {
    const auto [parent, name] = split(path);
    const StateId id = model_.state().find(path);
    const StateEntry* entry = id ? &model_.state()[id] : nullptr;
    if (!entry && !containers_.find_container(parent)) return;  // removed with its container
    const Container& holder = containers_.container(parent);
    const py::object module = holder.module, attributes = holder.attributes, key = text(name);
    auto has = [&](StateKind kind) { return entry && entry->kind == kind; };
    const py::set transient = attr(module, Fx::get().non_persistent);
    // A name may change its kind, and is then in two tables at once unless it is removed from the
    // old one first.
    const bool was_parameter = find(holder.table(kParameters), key);
    const bool was_buffer = find(holder.table(kBuffers), key);
    if (was_parameter && !has(StateKind::parameter)) containers_.remove(path, kParameters);
    if (was_buffer && !has(StateKind::buffer)) {
      containers_.remove(path, kBuffers);
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
      containers_.put(path, has(StateKind::parameter) ? kParameters : kBuffers, tensor);
      transient.attr(has(StateKind::buffer) && !entry->persistent ? "add" : "discard")(key);
    }
    stamps_.stamp_tensor(tensor, path);
  }

  const Mirror& mirror_;
  const Model& model_;
  Tables& tables_;
  ModuleStamps stamps_;
  MatchingModules matching_;
  ContainerWriter containers_;
  std::optional<Holders> holders_;  // of the model, once asked for
  std::vector<std::string> left_behind_;
  IdSet<Module> removed_;  // with their tensors
};

}  // namespace

void write_modules(const Mirror& mirror, Tables& tables, py::handle graph_module,
                   const ChangedObjects& changed) {
  if (changed.states.empty() && changed.modules.empty()) return;
  ModuleWriter(mirror, tables, graph_module).run(changed);
}

void write(const Mirror& mirror, Tables& tables, py::handle graph_module,
           const ChangedObjects& changed, bool hooks) {
  tables.identities.forget();
  write_modules(mirror, tables, graph_module, changed);
  const bool watched =
      write_nodes(mirror, tables, graph_module.attr("graph"), changed.nodes, hooks);
  // Hooks of others may have changed more than was written: then the next read must be a full one.
  // Without steps the history is dropped, and the snapshot would be of no use.
  if (!watched && mirror.has_steps()) mirror.mark_synced(tables, graph_module);
}

void write_all(const Mirror& mirror, Tables& tables, py::handle graph_module,
               ChangedObjects changed) {
  tables.identities.forget();
  const Model& model = mirror.model();
  for (ModuleId id : model.modules()) changed.modules.emplace_back(id, model.modules()[id].name);
  for (StateId id : model.state()) changed.states.emplace_back(id, model.state()[id].name);
  write_modules(mirror, tables, graph_module, changed);
  write_all_nodes(mirror, tables, graph_module.attr("graph"));
}

}  // namespace refx::fx
