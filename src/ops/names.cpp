// SPDX-License-Identifier: Apache-2.0

#include "ops/names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace refx {

std::string kept_modules_around(const Model& model, const Node& node) {
  std::string around;
  if (model.kept_modules().empty()) return around;
  const std::string path = module_path(node);
  for (const std::string& module : model.kept_modules())
    if (path == module || path.starts_with(module + ".") || path.starts_with(module + "@"))
      around += (around.empty() ? "'" : ", '") + module + "'";
  return around;
}

std::optional<Reason> why_not_across_modules(const Model& model, NodeId value, NodeId by) {
  if (model.kept_modules().empty()) return std::nullopt;
  const std::string around = kept_modules_around(model, model.graph()[value]);
  std::vector<NodeId> others = model.graph().users(value);
  others.push_back(by);
  for (NodeId id : others)
    if (const std::string other = kept_modules_around(model, model.graph()[id]); other != around)
      return because<ReasonId::crosses_kept_call>(around.empty() ? other : around);
  return std::nullopt;
}

std::string joined_paths(const std::vector<Name>& paths) {
  if (paths.size() == 1) return paths[0];
  auto parent_end = [](const Name& path) {
    const auto dot = path.rfind('.');
    return dot == path.npos ? 0 : dot + 1;
  };
  std::string_view parent = std::string_view(paths[0]).substr(0, parent_end(paths[0]));
  for (const Name& path : paths)
    // Shortens the common path by one module until all names have it.
    while (!path.starts_with(parent)) {
      parent.remove_suffix(1);
      parent = parent.substr(0, parent.rfind('.') + 1);
    }
  // Longer lists would fill the screen; the last name shows where the range ends.
  constexpr std::size_t kShown = 8;
  std::vector<std::string_view> names;
  for (const Name& path : paths) {
    if (paths.size() > kShown && names.size() == kShown - 2) {
      names.push_back("...");
      names.push_back(std::string_view(paths.back()).substr(parent.size()));
      break;
    }
    names.push_back(std::string_view(path).substr(parent.size()));
  }
  return fmt::format("{}{{{}}}", parent, fmt::join(names, ","));
}

}  // namespace refx
