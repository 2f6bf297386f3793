// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refx/arg.h"
#include "refx/export.h"
#include "refx/name.h"
#include "refx/type.h"

namespace refx {

// The nodes of a graph, as in torch.fx.

enum class Opcode : std::uint8_t {
  placeholder,
  get_attr,
  call_function,
  call_module,
  call_method,
  output,
};
REFX_API std::string_view to_string(Opcode op);

using Meta = std::vector<std::pair<std::string, std::string>>;
using MetaPtr = std::shared_ptr<const Meta>;  // shared among nodes; null: empty

// A value of the graph. Nodes are immutable: a change is a new Node in the same place.
struct REFX_API Node {
  Opcode op = Opcode::call_function;
  Name name = {};    // unique in the graph, as in torch.fx
  Name target = {};  // "aten.linear.default", "operator.truediv", a module path, a method name …
  Args args = {};    // output: one argument, what the graph returns
  Kwargs kwargs = {};
  Name state = {};  // placeholder of a lifted tensor: the state entry it stands for
  TypePtr type = {};
  MetaPtr meta = {};             // stack_trace, nn_module_stack, …
  std::vector<Name> marks = {};  // signatures of transformations, see Transformation

  friend REFX_API bool operator==(const Node& a, const Node& b);
};

// The name of the state entry that this placeholder or get_attr reads; empty for any other node.
REFX_API const Name& bound_state(const Node& node);

// The argument given by position or by name; null if it is left out.
REFX_API const Arg* argument(const Node& node, std::size_t position, std::string_view name);

template <class F>
void for_each_input(const Node& node, F&& f) {
  for (const Arg& a : node.args) for_each_node(a, f);
  for (const auto& [key, a] : node.kwargs) for_each_node(a, f);
}

}  // namespace refx
