#include "engine/lint.h"

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "engine/convert.h"
#include "refx/error.h"

namespace refx::fx {

namespace {

bool is_true(int result) {
  check(result);
  return result == 1;
}

// The tables of a graph by which find_nodes finds its nodes; each looked up once.
class FindTables {
 public:
  explicit FindTables(py::handle graph)
      : all_(graph.attr("_find_nodes_lookup_table").attr("table")) {}

  bool have(py::handle node, Opcode op, py::handle op_text, py::handle target) {
    const bool by_target = op == Opcode::call_function;
    auto [it, fresh] =
        (by_target ? of_target_ : of_op_).try_emplace((by_target ? target : op_text).ptr());
    if (fresh)
      it->second = py::reinterpret_borrow<py::object>(
          find(all_, py::make_tuple(op_text, by_target ? target : py::none())));
    PyObject* table = it->second.ptr();
    return table && PyDict_Check(table) && is_true(PyDict_Contains(table, node.ptr()));
  }

 private:
  py::dict all_;
  std::unordered_map<PyObject*, py::object> of_op_, of_target_;
};

// As getattr; None if it is not there. Most are parts of modules, which are found without running
// Module.__getattr__ where nothing else can give them.
class Parts {
 public:
  py::object part(py::handle module, std::string_view name) {
    const Fx& fx = Fx::get();
    PyTypeObject* type = Py_TYPE(module.ptr());
    const py::object key = text(name);
    if (is_plain(type) && !_PyType_Lookup(type, key.ptr())) {
      const py::object attributes = attributes_of(module);
      if (!find(attributes, key))
        for (PyObject* table : {fx.parameters, fx.buffers, fx.modules})
          if (PyObject* parts = find(attributes, table); parts && PyDict_Check(parts))
            if (PyObject* found = find(parts, key))
              return py::reinterpret_borrow<py::object>(found);
    }
    return attribute_at(module, name);
  }

 private:
  // Whether a class leaves it to Module to say what its attributes are.
  bool is_plain(PyTypeObject* type) {
    static PyObject* getattr = intern("__getattr__");
    static PyObject* getattribute = intern("__getattribute__");
    static PyObject* modules_own =
        py::object(py::module_::import("torch.nn").attr("Module").attr("__getattr__"))
            .release()
            .ptr();
    auto [it, fresh] = plain_.try_emplace(type);
    if (fresh)
      it->second =
          _PyType_Lookup(type, getattr) == modules_own &&
          _PyType_Lookup(type, getattribute) == _PyType_Lookup(&PyBaseObject_Type, getattribute);
    return it->second;
  }

  std::unordered_map<PyTypeObject*, bool> plain_;
};

// The attributes of a module that paths lead to; each asked for once.
class Attributes {
 public:
  explicit Attributes(py::object owner) : owner_(std::move(owner)) {}

  bool lead_to(const std::string& path, bool modules_only) {
    PyObject* at = owner_.ptr();
    for (std::size_t start = 0, dot = 0; dot != path.npos; start = dot + 1) {
      dot = path.find('.', start);
      auto [it, fresh] = found_.try_emplace(path.substr(0, dot));
      if (fresh) it->second = parts_.part(at, std::string_view(path).substr(start, dot - start));
      at = it->second.ptr();
      if (at == Py_None) return false;
      if (modules_only && !is_true(PyObject_IsInstance(at, module_type_.ptr()))) return false;
    }
    return true;
  }

 private:
  py::object owner_, module_type_ = py::module_::import("torch.nn").attr("Module");
  Parts parts_;
  std::unordered_map<std::string, py::object> found_;
};

// Every node is of this graph, in its tables and after those it reads; no name stands twice.
bool has_order(py::handle graph) {
  const Fx& fx = Fx::get();
  FindTables tables(graph);
  std::unordered_set<PyObject*> defined;
  const py::set names;
  const py::object root = attr(graph, fx.root);
  for (py::object node = attr(root, fx.next); !node.is(root); node = attr(node, fx.next)) {
    const py::object op = attr(node, fx.op);
    if (!attr(node, fx.graph).is(graph)) return false;
    if (!tables.have(node, to_opcode(op), op, attr(node, fx.target))) return false;
    const py::object inputs = attr(node, fx.input_nodes);
    if (!PyDict_Check(inputs.ptr())) return false;
    PyObject *input = nullptr, *none = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(inputs.ptr(), &at, &input, &none);)
      if (!defined.count(input)) return false;
    defined.insert(node.ptr());
    check(PySet_Add(names.ptr(), attr(node, fx.name).ptr()));
  }
  return names.size() == defined.size();
}

// What nodes call and read is there.
bool has_targets(py::handle graph, const py::object& owner) {
  const Fx& fx = Fx::get();
  Attributes attributes(owner);
  const py::object root = attr(graph, fx.root);
  for (py::object node = attr(root, fx.next); !node.is(root); node = attr(node, fx.next)) {
    const Opcode op = to_opcode(attr(node, fx.op));
    const py::object target = attr(node, fx.target);
    if (op == Opcode::call_function ? !PyCallable_Check(target.ptr())
                                    : !PyUnicode_Check(target.ptr()))
      return false;
    if (op != Opcode::get_attr && op != Opcode::call_module) continue;
    if (!attributes.lead_to(to_string(target), op == Opcode::call_module)) return false;
  }
  return true;
}

}  // namespace

bool passes_lint(py::handle graph) {
  static const py::handle type =
      py::object(py::module_::import("torch.fx").attr("Graph")).release();
  if (!py::type::handle_of(graph).is(type)) return false;
  try {
    const py::object owner = graph.attr("owning_module");
    return has_order(graph) && (is_true(PyObject_Not(owner.ptr())) || has_targets(graph, owner));
  } catch (const py::error_already_set&) {
    return false;
  } catch (const Error&) {  // an unknown opcode
    return false;
  }
}

}  // namespace refx::fx
