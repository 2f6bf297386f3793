// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "engine/identity_snapshot.h"
#include "refx/name_index.h"
#include "refx/node.h"

namespace refx::fx {

namespace py = pybind11;

// The Python objects of a mirror, which itself refers to them by id, name or path. Python and the
// engine share this object, and it supports garbage collection.
struct Tables {
  // A node of torch.fx, or None, and its parts at the last read. torch.fx makes a new tuple or dict
  // whenever it changes the arguments, so the same object means the same value.
  struct Seen {
    py::object node, args, kwargs, target, type = py::none();
  };

  // Nodes.
  std::vector<Seen> seen;  // by node id, also of erased nodes
  py::dict erased;         // in a copy: node id -> name, meta and type of a node erased before

  // Objects in arguments, which refx does not interpret, and functions.
  py::list objects;
  py::dict places;     // key of an object -> its index in `objects`
  py::dict names;      // function -> its name
  py::dict functions;  // its name -> function

  // Modules, by path.
  py::dict displaced;          // -> the modules that steps removed or replaced
  py::dict copied_containers;  // -> the original of a container that was copied to be written
  py::set made_containers;     // paths of containers that steps created
  py::dict name_order;         // path and table -> the names that were ever in it, in order

  IdentitySnapshot identities;  // of modules and tensors, as the mirror has them

  // By step: the signature of the Python class, if it derives from the library's transformation or
  // is applied as a part of another one.
  py::dict signatures;
  py::set stamped;  // signatures that this history ever wrote on modules

  void grow(std::uint32_t nodes);  // room for node ids below that
  void clear_nodes();              // forgets all nodes

  // The fx.Node, or None.
  py::object node(NodeId id) const;
  // Its id, if it is in the graph.
  NodeId id_of(py::handle node) const;
  void set_id(py::handle node, NodeId id);
  void drop_id(py::handle node);
  // Releases erased nodes, except these.
  void forget_erased(const std::vector<std::uint32_t>& needed);

  // The index of an object. Objects that are equal and have the same type share an index, so that a
  // value is recognised after it was written to a file and read again.
  std::size_t place_of(py::handle object);
  py::object object_at(std::size_t place) const;

  // Names of functions, and functions by name; see refx/fx/_functions.py.
  Name name_of(py::handle function);
  py::object function_of(const std::string& name);
  void set_function(const std::string& name, py::handle function);

  int traverse(visitproc visit, void* arg) const;

 private:
  std::unordered_map<PyObject*, Name> known_names_;  // of functions that are held in `names`
  NameIndex ids_;  // of the nodes in the graph, by their addresses
};

}  // namespace refx::fx
