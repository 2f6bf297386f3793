// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "refx/node.h"

namespace refx {

// Whether `f` holds for an argument, or for an item of it, however deep.
template <class F>
bool any_part(const Arg& arg, const F& f) {
  const auto any = [&](const Args& args) {
    return std::any_of(args.begin(), args.end(), [&](const Arg& a) { return any_part(a, f); });
  };
  if (const auto* list = arg.get<List>()) return any(list->items);
  if (const auto* tuple = arg.get<Tuple>()) return any(tuple->items);
  if (const auto* slice = arg.get<Slice>()) return any(slice->parts);
  return f(arg);
}
template <class F>
bool any_argument(const Node& node, const F& f) {
  return std::any_of(node.args.begin(), node.args.end(),
                     [&](const Arg& arg) { return any_part(arg, f); }) ||
         std::any_of(node.kwargs.begin(), node.kwargs.end(),
                     [&](const auto& kwarg) { return any_part(kwarg.second, f); });
}

// Whether the node calls a function or a method with literals and with values for which
// `is_constant(NodeId)` holds, and with nothing else.
template <class F>
bool is_constant_call(const Node& node, const F& is_constant) {
  if (node.op != Opcode::call_function && node.op != Opcode::call_method) return false;
  const auto is_unknown = [](const Arg& arg) {
    return arg.is<SymInt>() || arg.is<Raw>() || arg.is<Dict>();
  };
  if (any_argument(node, is_unknown)) return false;
  bool all = true;
  for_each_input(node, [&](NodeId input) { all = all && is_constant(input); });
  return all;
}

}  // namespace refx
