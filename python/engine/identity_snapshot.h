// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "engine/python_api.h"

namespace refx::fx {

// Which Python objects the modules of a GraphModule consisted of at the last read or write. If all
// of them are the same objects now, nothing but the contents of tensors can have changed.
class IdentitySnapshot {
 public:
  // `attributes` are paths of further objects that the graph reads, besides parameters and buffers.
  void capture(py::handle graph_module, std::vector<std::string> attributes);
  bool matches(py::handle graph_module) const;
  void forget() { *this = {}; }

  int traverse(visitproc visit, void* arg) const;

 private:
  // References are kept: the address of a freed object may be reused for another one.
  std::vector<py::object> objects_;
  std::vector<std::size_t> numbers_;
  std::vector<std::string> attributes_;
  bool is_valid_ = false;
};

}  // namespace refx::fx
