// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "refx/node.h"

namespace refx {

// Paths of modules, as nn_module_stack and the names of tensors have them.

// The path of the innermost module that a node was traced in, from its metadata; empty if it has
// none. torch.export writes "d@1" for the second call of module d.
std::string module_path(const Node& node);
// "encoder.0.div": the module path and the name of a node.
std::string node_path(const Node& node);
// "d.fc" for "d@1.fc".
std::string without_call_numbers(std::string_view path);
// The module that owns a tensor: "encoder.0.query" for "encoder.0.query.weight"; a tensor of the
// root is its own.
std::string_view owner_path(std::string_view state_name);

}  // namespace refx
