// SPDX-License-Identifier: Apache-2.0

#include "ir/module_path.h"

namespace refx {

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

std::string node_path(const Node& node) {
  const std::string path = module_path(node);
  return path.empty() ? std::string(node.name) : path + "." + node.name;
}

std::string without_call_numbers(std::string_view path) {
  std::string plain;
  for (std::size_t i = 0; i < path.size(); ++i) {
    std::size_t end = i + 1;
    while (path[i] == '@' && end < path.size() && path[end] >= '0' && path[end] <= '9') ++end;
    if (end > i + 1 && (end == path.size() || path[end] == '.'))
      i = end - 1;
    else
      plain += path[i];
  }
  return plain;
}

std::string_view owner_path(std::string_view state_name) {
  const auto dot = state_name.rfind('.');
  return dot == state_name.npos ? state_name : state_name.substr(0, dot);
}

}  // namespace refx
