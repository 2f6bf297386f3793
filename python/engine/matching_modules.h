// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "engine/mirror.h"
#include "engine/module_stamps.h"

namespace refx::fx {

// Finds or makes the module objects that equal modules of the model. It remembers the modules that
// were displaced, so that undo puts back the user's own objects.
class MatchingModules {
 public:
  MatchingModules(const Mirror& mirror, Tables& tables, ModuleStamps& stamps)
      : mirror_(mirror), model_(mirror.model()), tables_(tables), stamps_(stamps) {}

  // Remembers a module that is about to be removed or replaced at that path.
  void keep(std::string_view path, const py::object& module);
  // A module that equals the one of the model: one that was at this path before, or a new one.
  // `current` is the module that is there now, or null.
  py::object matching(ModuleId id, const py::object& current);

 private:
  py::object configured(py::handle base, ModuleId id);

  const Mirror& mirror_;
  const Model& model_;
  Tables& tables_;
  ModuleStamps& stamps_;
};

}  // namespace refx::fx
