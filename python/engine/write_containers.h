// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/tables.h"
#include "engine/torch_fx.h"

namespace refx::fx {

// Writes names into the tables of the modules that hold other modules or tensors. A container that
// may be shared is copied first, a missing one is made, and one that the library made is removed
// when it is empty.
class ContainerWriter {
 public:
  enum TableKind { kParameters, kBuffers, kModules, kTables };

  // A module that holds others, or tensors, under names.
  struct Container {
    explicit Container(py::object module_, bool writable_ = false)
        : module(std::move(module_)), attributes(attributes_of(module)), writable(writable_) {}
    PyObject* table(TableKind kind) const;
    bool is_empty() const;

    py::object module, attributes;
    bool writable;                          // ours: nobody else has it
    std::array<py::object, kTables> order;  // of the names in its tables, once asked for
    std::array<bool, kTables> unsorted = {};
  };

  ContainerWriter(Tables& tables, py::handle graph_module) : tables_(tables) {
    containers_.emplace("", Container(py::reinterpret_borrow<py::object>(graph_module), true));
  }

  // The module at that path, for reading; null if there is none.
  Container* find_container(std::string_view path);
  // For writing: made if there is none, copied if it may be shared.
  Container& container(std::string_view path);
  // Drops the cached container at that path, because another module is there now.
  void forget_container(std::string_view path);
  // Whether the container at that path was made by the library.
  bool is_made(std::string_view path) const;

  // Writes, or removes, the module or tensor at that path.
  void put(std::string_view path, TableKind kind, py::handle value);
  void remove(std::string_view path, TableKind kind);

  // Restores the order of the names in the tables that were written. Must be called last.
  void sort_tables();

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };

  PyObject* order_of(std::string_view path, Container& container, TableKind kind);
  void write(std::string_view path, Container& container, TableKind kind, std::string_view name,
             py::handle value);
  void note_place(std::string_view path);

  Tables& tables_;
  std::unordered_map<std::string, Container, Hash, std::equal_to<>> containers_;
  std::pair<const std::string, Container>* last_ = nullptr;  // of those, the last one asked for
};

}  // namespace refx::fx
