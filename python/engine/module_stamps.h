// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/mirror.h"

namespace refx::fx {

// Stamps modules and tensors with the signatures of the transformations that made them. The stamp
// survives where the history is lost, for example when somebody makes another GraphModule of the
// same modules. Then `reverse` can report an error instead of silently doing nothing.
class ModuleStamps {
 public:
  ModuleStamps(const Mirror& mirror, Tables& tables) : mirror_(mirror), tables_(tables) {}

  // Updates the stamp in the attributes of a new module, which has that of its base. It keeps
  // signatures that another history wrote on the base, and those of this history's present steps.
  // Signatures of reversed steps are removed.
  void stamp_module(py::handle attributes, const std::string& path);
  // Stamps a tensor outside of modules, if a step made it.
  void stamp_tensor(py::handle tensor, std::string_view path);

 private:
  const std::unordered_map<std::string, std::vector<std::string>>& authors();

  const Mirror& mirror_;
  Tables& tables_;
  std::optional<std::unordered_map<std::string, std::vector<std::string>>> authors_;
};

}  // namespace refx::fx
