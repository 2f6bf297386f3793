#pragma once

#include <torch/csrc/utils/pybind.h>

#include <string>
#include <vector>

#include "refx/node.h"

namespace refx::fx {

namespace py = pybind11;

// The Python objects behind a mirror, which itself knows them by number, name or path. One object
// that Python and the engine share; the garbage collector sees through it.
struct Tables {
  // What a node of torch.fx had when it was last read. torch.fx makes a new tuple or dictionary
  // whenever it changes one, so the same object is the same value.
  struct Seen {
    py::object args, kwargs, target, type = py::none();
  };

  // Nodes.
  py::dict ids;            // fx.Node -> node id, of those that are in the graph
  py::list nodes;          // by node id: the fx.Node, also of an erased node; or None
  std::vector<Seen> seen;  // by node id
  py::dict erased;         // node id -> name, meta and type, of nodes that no copy was made of

  // What nodes hold: arguments that refx does not interpret, and functions.
  py::list objects;
  py::dict places;     // what tells one of those from others -> where it is
  py::dict names;      // function -> its name
  py::dict functions;  // its name -> function

  // Modules, by path.
  py::dict displaced;          // -> those that steps took away
  py::dict copied_containers;  // -> those that were copied so as to be written
  py::set made_containers;
  py::dict name_order;  // path and table -> the names that were ever in it, in order

  py::dict signatures;  // of steps that a derived class took, or others as a part, by step
  py::set stamped;      // signatures that this history ever wrote on modules

  void grow(std::uint32_t nodes);  // room for node ids below that
  void clear_nodes();              // as if none was ever read

  // The fx.Node, or None.
  py::object node(NodeId id) const;
  // Its id, if it is in the graph.
  NodeId id_of(py::handle node) const;
  void set_id(py::handle node, NodeId id);
  void set_node(NodeId id, py::handle node);
  // Lets go of erased nodes, except these.
  void forget_erased(const std::vector<std::uint32_t>& needed);

  // An object's place. What is equal and of one type has one place, so that a value that was
  // written to a file and read again is recognised.
  std::size_t place_of(py::handle object);
  py::object object_at(std::size_t place) const;

  // Both ways between functions and names; see refx/fx/_functions.py.
  std::string name_of(py::handle function);
  py::object function_of(const std::string& name);
  void set_function(const std::string& name, py::handle function);

  int traverse(visitproc visit, void* arg) const;
};

}  // namespace refx::fx
