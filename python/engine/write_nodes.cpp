// SPDX-License-Identifier: Apache-2.0

// Makes the nodes of a torch.fx graph equal to the nodes of the model. A node that stays keeps its
// object, name and metadata. An erased node that returns is the same object again, because users
// may hold references to nodes.
//
// It writes the linked list and the tables of torch.fx.Graph directly. Graph.create_node and
// Graph.erase_node would make new names and objects.

#include <array>
#include <utility>

#include "engine/marks.h"
#include "engine/write.h"
#include "refx/error.h"

namespace refx::fx {

namespace {

// Private attributes and methods of Graph and Node that only this file uses, besides those in Fx.
struct Inner {
  PyObject *lookup = intern("_find_nodes_lookup_table"), *table = intern("table"),
           *len = intern("_len"), *erased = intern("_erased"), *owner = intern("owning_module"),
           *create_hooks = intern("_create_node_hooks"), *erase_hooks = intern("_erase_node_hooks"),
           *names = intern("_graph_namespace"), *create_name = intern("create_name"),
           *associate = intern("associate_name_with_obj"), *rename = intern("_rename_object");
  py::object update = method("_update_args_kwargs"), prepend = method("_prepend"),
             remove = method("_remove_from_list");
  py::dict no_kwargs;

  static const Inner& get() {
    static const Inner* inner = new Inner;
    return *inner;
  }
  static py::object method(const char* name) {
    return py::handle(reinterpret_cast<PyObject*>(Fx::get().node_type)).attr(name);
  }
};

py::object call(const py::object& function, py::handle a) {
  PyObject* args[] = {a.ptr()};
  return owned(PyObject_Vectorcall(function.ptr(), args, 1, nullptr));
}
py::object call(const py::object& function, py::handle a, py::handle b) {
  PyObject* args[] = {a.ptr(), b.ptr()};
  return owned(PyObject_Vectorcall(function.ptr(), args, 2, nullptr));
}
py::object call(const py::object& function, py::handle a, py::handle b, py::handle c) {
  PyObject* args[] = {a.ptr(), b.ptr(), c.ptr()};
  return owned(PyObject_Vectorcall(function.ptr(), args, 3, nullptr));
}

class NodeWriter {
 public:
  NodeWriter(const Mirror& mirror, Tables& tables, py::handle graph, bool hooks)
      : graph_(mirror.model().graph()),
        tables_(tables),
        fx_graph_(py::reinterpret_borrow<py::object>(graph)),
        lookup_(attr(attr(graph, Inner::get().lookup), Inner::get().table)),
        root_(attr(graph, Fx::get().root)) {
    const py::object owner = attr(graph, Inner::get().owner),
                     names = attr(graph, Inner::get().names);
    create_name_ = attr(names, Inner::get().create_name);
    associate_ = attr(names, Inner::get().associate);
    rename_ = attr(names, Inner::get().rename);
    if (!hooks) return;
    create_hooks_ = py::getattr(owner, Inner::get().create_hooks, py::none());
    erase_hooks_ = py::getattr(owner, Inner::get().erase_hooks, py::none());
  }
  ~NodeWriter() {
    // Also when a hook threw: the length must fit the nodes that were inserted until then.
    try {
      count();
    } catch (...) {
      PyErr_Clear();
    }
  }

  bool has_hooks() const { return has_any(create_hooks_) || has_any(erase_hooks_); }

  void run(const std::vector<NodeId>& ids) {
    std::vector<NodeId> erased;
    for (NodeId id : ids) {
      if (const Node* node = graph_.find(id))
        write(id, *node);
      else
        erased.push_back(id);
    }
    // After the writes, because the nodes that stay must no longer use the erased ones; and in
    // reverse order, so that users are erased before the nodes that they use.
    for (auto it = erased.rbegin(); it != erased.rend(); ++it) erase(*it);
  }

  // Makes the whole graph equal to the model, whatever somebody did to it. Every node is written
  // and moved to the end; nodes that the model does not know are then at the front, and are
  // removed.
  void run_all() {
    const Fx& fx = Fx::get();
    for (NodeId id : graph_) {
      py::object node = known(id);
      if (!node.is_none() && attr(node, Inner::get().erased).ptr() == Py_True)
        tables_.drop_id(node);  // somebody erased it: write() inserts it again
      PyErr_Clear();
      write(id, graph_[id]);
      node = known(id);
      if (!attr(root_, fx.prev).is(node)) call(Inner::get().prepend, root_, node);  // at the end
    }
    // In reverse order: users before the nodes that they use.
    std::vector<py::object> others;
    const NodeId first = graph_.first();
    const py::object end = first ? known(first) : root_;
    for (py::object node = attr(root_, fx.next); !node.is(end); node = attr(node, fx.next))
      others.push_back(node);
    for (auto it = others.rbegin(); it != others.rend(); ++it) take_out(*it);
  }

 private:
  static bool has_any(const py::object& hooks) {
    return hooks && !hooks.is_none() && py::len(hooks) > 0;
  }
  py::object known(NodeId id) const { return tables_.node(id); }
  bool is_in_graph(NodeId id, py::handle node) const { return tables_.id_of(node) == id; }

  // The nodes of one opcode and target in the table behind Graph.find_nodes. The last one is
  // cached: steps usually write many nodes of the same kind.
  struct Listed {
    py::object op, target, nodes;
  };
  const py::object& listed(Listed& last, const py::object& op, py::handle target) const {
    if (to_opcode(op) != Opcode::call_function) target = Py_None;
    if (!op.is(last.op) || !target.is(last.target)) {
      const py::object key = owned(PyTuple_Pack(2, op.ptr(), target.ptr()));
      last = {op, py::reinterpret_borrow<py::object>(target),
              owned(PyObject_GetItem(lookup_.ptr(), key.ptr()))};
    }
    return last.nodes;
  }
  void list(py::handle node, const py::object& op, py::handle target) {
    check(PyDict_SetItem(listed(listed_, op, target).ptr(), node.ptr(), Py_None));
  }
  void unlist(py::handle node) {
    const Fx& fx = Fx::get();
    const py::object& nodes = listed(unlisted_, attr(node, fx.op), attr(node, fx.target));
    if (PyDict_Contains(nodes.ptr(), node.ptr()) == 1)
      check(PyDict_DelItem(nodes.ptr(), node.ptr()));
  }

  void write(NodeId id, const Node& value) {
    const Fx& fx = Fx::get();
    py::object node = known(id);
    auto [op, target] = from_target(tables_, value);
    if (node.is_none() || !is_in_graph(id, node)) {
      node = insert(id, value, std::move(node), op, target);
    } else {
      const py::object old_op = attr(node, fx.op), old_target = attr(node, fx.target);
      const bool same_text = PyUnicode_Check(target.ptr()) && PyUnicode_Check(old_target.ptr()) &&
                             PyUnicode_Compare(target.ptr(), old_target.ptr()) == 0;
      if (!old_op.is(op) || (!old_target.is(target) && !same_text)) {
        unlist(node);
        set(node, fx.op, op);
        set(node, fx.target, target);
        list(node, op, target);
      }
    }
    // Node._update_args_kwargs also maintains `users` of the arguments.
    call(Inner::get().update, node, from_args(tables_, value.args),
         from_kwargs(tables_, value.kwargs));
    set_marks(node, value.marks);
    Tables::Seen& seen = tables_.seen[id.value];
    seen.args = attr(node, fx.args);
    seen.kwargs = attr(node, fx.kwargs);
    seen.target = attr(node, fx.target);
  }

  // Inserts a node at its position in the model: a new one, an erased one, or one that was moved.
  py::object insert(NodeId id, const Node& value, py::object node, const py::object& op,
                    const py::object& target) {
    const Fx& fx = Fx::get();
    const Inner& inner = Inner::get();
    tables_.grow(id.value + 1);
    const NodeId left = graph_.previous(id);
    const py::object previous = left ? known(left) : root_;
    REFX_CHECK(!previous.is_none(), "a node is inserted after one that is unknown");
    if (node.is_none()) {
      const py::object before = saved(id);
      node = make(value, before, op, target);
      tables_.set_id(node, id);
      call(inner.prepend, attr(previous, fx.next), node);
      set_meta(node, before);
    } else {
      if (attr(node, inner.erased).ptr() == Py_True) {
        set(node, fx.prev, node);  // _prepend would unlink its former neighbours
        set(node, fx.next, node);
        set(node, inner.erased, Py_False);
      } else {
        unlist(node);
        --grown_;
      }
      tables_.set_id(node, id);
      call(inner.prepend, attr(previous, fx.next), node);
      set(node, fx.op, op);
      set(node, fx.target, target);
    }
    list(node, op, target);
    ++grown_;
    if (has_any(create_hooks_))
      for (py::handle hook : create_hooks_) hook(node);
    return node;
  }

  py::object make(const Node& value, const py::object& saved, py::handle op, py::handle target) {
    const bool known = !saved.is_none();
    const py::object name = known ? py::object(saved[py::int_(0)]) : text(value.name);
    const py::object annotation = known ? py::object(saved[py::int_(2)]) : py::none();
    const py::object unique = call(create_name_, name, py::none());
    const py::handle type(reinterpret_cast<PyObject*>(Fx::get().node_type));
    py::object node =
        type(fx_graph_, unique, op, target, py::tuple(), Inner::get().no_kwargs, annotation);
    call(associate_, unique, node);
    if (taken_) check(PySet_Add(taken_.ptr(), unique.ptr()));
    return node;
  }

  // Name, metadata and type of a node that was erased before the GraphModule was copied, or None. A
  // copy has no object for such a node.
  py::object saved(NodeId id) const {
    if (tables_.erased.size() == 0) return py::none();
    return tables_.erased.attr("pop")(id.value, py::none());
  }

  void set_meta(py::handle node, const py::object& saved) {
    py::dict meta;
    if (saved.is_none()) {
      const py::object origin = attr(attr(node, Fx::get().next), Fx::get().meta);
      for (PyObject* key : origin_keys())
        if (PyObject* found = PyDict_GetItemWithError(origin.ptr(), key))
          check(PyDict_SetItem(meta.ptr(), key, found));
    } else {
      meta = owned(PyDict_Copy(py::object(saved[py::int_(1)]).ptr()));
      give_name(node, saved[py::int_(0)]);
    }
    set(node, Fx::get().meta, meta);
  }

  // The metadata that a new node takes over from the node after it, which it was inserted for:
  // torch uses these keys for error messages and for partitioning by module.
  static const std::array<PyObject*, 3>& origin_keys() {
    static const auto* keys = new std::array<PyObject*, 3>{
        intern("stack_trace"), intern("nn_module_stack"), intern("source_fn_stack")};
    return *keys;
  }

  // Restores the former name of a node, unless another node has it now.
  void give_name(py::handle node, const py::object& name) {
    const Fx& fx = Fx::get();
    if (!taken_) {  // collected once: most writes restore no name
      taken_ = py::set();
      for (py::object other = attr(root_, fx.next); !other.is(root_); other = attr(other, fx.next))
        check(PySet_Add(taken_.ptr(), attr(other, fx.name).ptr()));
    }
    if (PySet_Contains(taken_.ptr(), name.ptr()) != 0) return;
    check(PySet_Discard(taken_.ptr(), attr(node, fx.name).ptr()));
    check(PySet_Add(taken_.ptr(), name.ptr()));
    set(node, fx.name, name);
    call(rename_, node, name);
  }

  void erase(NodeId id) {
    const py::object node = known(id);
    if (node.is_none() || !is_in_graph(id, node)) return;
    if (PyObject_Size(attr(node, Fx::get().users).ptr()) != 0)
      throw InternalError("node '" + to_string(attr(node, Fx::get().name)) +
                          "' is erased but still used");
    if (has_any(erase_hooks_))
      for (py::handle hook : erase_hooks_) hook(node);
    take_out(node);
    set_marks(node, {});
  }

  void take_out(const py::object& node) {
    const Inner& inner = Inner::get();
    unlist(node);
    call(inner.remove, node);
    set(node, inner.erased, Py_True);
    --grown_;
    call(inner.update, node, py::tuple(), py::dict());
    tables_.drop_id(node);
  }

  void count() {
    const auto grown = std::exchange(grown_, 0);
    if (grown == 0) return;
    const auto len = attr(fx_graph_, Inner::get().len).cast<std::int64_t>() + grown;
    check(PyObject_SetAttr(fx_graph_.ptr(), Inner::get().len, py::int_(len).ptr()));
  }

  const Graph& graph_;
  Tables& tables_;
  py::object fx_graph_, lookup_, root_, create_hooks_, erase_hooks_, create_name_, associate_,
      rename_;
  Listed listed_, unlisted_;
  py::object taken_;  // the names of all nodes, once asked for
  std::int64_t grown_ = 0;
};

}  // namespace

bool write_nodes(const Mirror& mirror, Tables& tables, py::handle graph,
                 const std::vector<NodeId>& nodes, bool hooks) {
  NodeWriter writer(mirror, tables, graph, hooks);
  writer.run(nodes);
  return writer.has_hooks();
}

void write_all_nodes(const Mirror& mirror, Tables& tables, py::handle graph) {
  NodeWriter(mirror, tables, graph, false).run_all();
}

}  // namespace refx::fx
