// SPDX-License-Identifier: Apache-2.0

#include "ir/map_arg.h"

namespace refx {

namespace {

std::function<Arg(const Arg&)> on_inputs(const std::function<Arg(NodeId)>& input) {
  return [&](const Arg& arg) {
    const auto* id = arg.get<NodeId>();
    return id ? input(*id) : arg;
  };
}

}  // namespace

Arg map_arg(const Arg& arg, const std::function<Arg(const Arg&)>& leaf) {
  const auto all = [&](const Args& args) {
    Args out;
    out.reserve(args.size());
    for (const Arg& item : args) out.push_back(map_arg(item, leaf));
    return out;
  };
  if (const auto* list = arg.get<List>()) return List{all(list->items)};
  if (const auto* tuple = arg.get<Tuple>()) return Tuple{all(tuple->items)};
  if (const auto* slice = arg.get<Slice>()) return Slice{all(slice->parts)};
  if (const auto* dict = arg.get<Dict>()) {
    Dict out;
    for (const auto& [key, value] : dict->items) out.items.emplace_back(key, map_arg(value, leaf));
    return out;
  }
  return leaf(arg);
}

void map_arguments(Node& node, const std::function<Arg(const Arg&)>& leaf) {
  for (Arg& arg : node.args) arg = map_arg(arg, leaf);
  for (auto& [name, arg] : node.kwargs) arg = map_arg(arg, leaf);
}

Arg map_inputs(const Arg& arg, const std::function<Arg(NodeId)>& input) {
  return map_arg(arg, on_inputs(input));
}

void map_inputs(Node& node, const std::function<Arg(NodeId)>& input) {
  map_arguments(node, on_inputs(input));
}

}  // namespace refx
