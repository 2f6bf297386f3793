// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "engine/python_api.h"

namespace refx::fx {

// The modules and tensors of a GraphModule as they were when they were last looked at, object by
// object. Where each is still the same, there is nothing to read, unless in the tensors.
class Sight {
 public:
  // `attributes` are paths of what is read beside parameters and buffers.
  void take(py::handle graph_module, std::vector<std::string> attributes);
  bool is_same(py::handle graph_module) const;
  void forget() { *this = {}; }

  int traverse(visitproc visit, void* arg) const;

 private:
  std::vector<py::object> objects_;  // held: else another one might come to lie in its place
  std::vector<std::size_t> numbers_;
  std::vector<std::string> attributes_;
  bool taken_ = false;
};

}  // namespace refx::fx
