// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "refx/model.h"

namespace refx::fx {

// The path of the parent, and the name in it.
inline std::pair<std::string_view, std::string_view> split(std::string_view path) {
  const auto dot = path.rfind('.');
  if (dot == path.npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

// The paths of modules that hold other modules or tensors.
class Holders {
 public:
  explicit Holders(const Model& model) {
    for (ModuleId id : model.modules()) add(model.modules()[id].name);
    for (StateId id : model.state()) add(model.state()[id].name);
  }
  // Adds the modules that held what the step removed or changed.
  void add(const Step& step) {
    for (const Edit& edit : step.edits) {
      if (const auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->before)
        add(change->before->name);
      if (const auto* change = std::get_if<Change<Module>>(&edit); change && change->before)
        add(change->before->name);
    }
  }
  bool contains(const std::string& path) const { return paths_.count(path) > 0; }

 private:
  void add(std::string_view path) {
    for (path = split(path).first; !path.empty(); path = split(path).first)
      if (!paths_.emplace(path).second) return;
  }

  std::unordered_set<std::string> paths_;
};

}  // namespace refx::fx
