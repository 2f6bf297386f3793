// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module_path.h"
#include "refx/model.h"
#include "refx/reason.h"

namespace refx {

// How a model spells an operator.
enum class Spelling {
  aten,        // call_function[aten.linear.default], tensors lifted to placeholders
  functional,  // call_function[torch.nn.functional.linear] or a method, tensors by get_attr
  module,      // call_module[fc]
};

// The modules around a node that are still called as such when the program is unflattened.
std::string kept_modules_around(const Model& model, const Node& node);
// Why users of `value` cannot read `by` instead: one of them is in such a module, another is not.
std::optional<Reason> why_not_across_modules(const Model& model, NodeId value, NodeId by);
// {"a.b.query", "a.b.key"} -> "a.b.{query,key}"; long lists are shortened.
std::string joined_paths(const std::vector<Name>& paths);

}  // namespace refx
