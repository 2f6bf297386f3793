#include "ops/names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>


namespace refx {

std::optional<OperatorTarget> operator_target(std::string_view target) {
  if (target.starts_with("torch.ops.")) target.remove_prefix(10);
  const auto first = target.find('.');
  const auto second = first == target.npos ? target.npos : target.find('.', first + 1);
  if (second == target.npos || target.find('.', second + 1) != target.npos) return std::nullopt;
  const std::string_view space = target.substr(0, first);
  if (space == "torch" || space == "operator" || space == "math") return std::nullopt;
  return OperatorTarget{space, target.substr(first + 1, second - first - 1),
                        target.substr(second + 1)};
}

std::string_view operator_name(const Model& model, const Node& node) {
  if (node.op == Opcode::call_module) {
    const ModuleId id = model.modules().find(node.target);
    return id ? std::string_view(model.modules()[id].type) : std::string_view();
  }
  std::string_view target = node.target;
  if (node.op != Opcode::call_function) return target;
  if (const auto parts = operator_target(target))
    return parts->space == "aten" ? parts->name : target;
  const bool known = target.starts_with("torch.") || target.starts_with("operator.") ||
                     target.starts_with("math.") || target.starts_with("builtins.");
  return known ? target.substr(target.rfind('.') + 1) : target;
}

std::string owner_path(std::string_view state_name) {
  const auto dot = state_name.rfind('.');
  return std::string(dot == state_name.npos ? state_name : state_name.substr(0, dot));
}

namespace {

// nn_module_stack is "key,path,type;key,path,type": the innermost path counts.
std::string module_path(const Node& node) {
  if (!node.meta) return "";
  for (const auto& [key, value] : *node.meta) {
    if (key != "nn_module_stack" || value.empty()) continue;
    const auto entry = value.rfind(';') + 1;  // npos + 1 == 0
    const auto first = value.find(',', entry), second = value.find(',', first + 1);
    if (first == value.npos || second == value.npos) return "";
    const std::string path = value.substr(first + 1, second - first - 1);
    return path.starts_with("_empty_nn_module_stack") ? "" : path;  // torch.export's word for none
  }
  return "";
}

}  // namespace

std::string kept_modules_around(const Model& model, const Node& node) {
  std::string around;
  const std::string path = module_path(node);
  for (const std::string& module : model.kept_modules())
    if (path == module || path.starts_with(module + ".") || path.starts_with(module + "@"))
      around += (around.empty() ? "'" : ", '") + module + "'";
  return around;
}

std::string place_name(const Node& node) {
  const std::string path = module_path(node);
  return path.empty() ? node.name : path + "." + node.name;
}

std::string joined_paths(const std::vector<std::string>& paths) {
  auto parent_end = [](const std::string& path) {
    const auto dot = path.rfind('.');
    return dot == path.npos ? 0 : dot + 1;
  };
  std::string_view parent = std::string_view(paths[0]).substr(0, parent_end(paths[0]));
  for (const std::string& path : paths)
    while (!path.starts_with(parent)) {
      parent.remove_suffix(1);
      parent = parent.substr(0, parent.rfind('.') + 1);
    }
  constexpr std::size_t kShown = 8;
  std::vector<std::string_view> names;
  for (const std::string& path : paths) {
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
