// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "engine/sight.h"
#include "refx/name_index.h"
#include "refx/node.h"

namespace refx::fx {

namespace py = pybind11;

// The Python objects behind a mirror, which itself knows them by number, name or path. One object
// that Python and the engine share; the garbage collector sees through it.
struct Tables {
  // A node of torch.fx, or none, and what it had when it was last read. torch.fx makes a new tuple
  // or dictionary whenever it changes one, so the same object is the same value.
  struct Seen {
    py::object node, args, kwargs, target, type = py::none();
  };

  // Nodes.
  std::vector<Seen> seen;  // by node id, also of erased nodes
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

  Sight sight;  // of modules and tensors, as the mirror has them

  py::dict signatures;  // of steps that a derived class took, or others as a part, by step
  py::set stamped;      // signatures that this history ever wrote on modules

  void grow(std::uint32_t nodes);  // room for node ids below that
  void clear_nodes();              // as if none was ever read

  // The fx.Node, or None.
  py::object node(NodeId id) const;
  // Its id, if it is in the graph.
  NodeId id_of(py::handle node) const;
  void set_id(py::handle node, NodeId id);
  void drop_id(py::handle node);
  // Lets go of erased nodes, except these.
  void forget_erased(const std::vector<std::uint32_t>& needed);

  // An object's place. What is equal and of one type has one place, so that a value that was
  // written to a file and read again is recognised.
  std::size_t place_of(py::handle object);
  py::object object_at(std::size_t place) const;

  // Both ways between functions and names; see refx/fx/_functions.py.
  Name name_of(py::handle function);
  py::object function_of(const std::string& name);
  void set_function(const std::string& name, py::handle function);

  int traverse(visitproc visit, void* arg) const;

 private:
  std::unordered_map<PyObject*, Name> known_names_;  // of functions that are held in `names`
  NameIndex ids_;  // of the nodes in the graph, by their addresses
};

}  // namespace refx::fx
