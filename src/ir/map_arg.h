// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "refx/node.h"

namespace refx {

// The argument with every value in it, however deep, replaced by what the function returns for it.
Arg map_arg(const Arg& arg, const std::function<Arg(const Arg&)>& leaf);
void map_arguments(Node& node, const std::function<Arg(const Arg&)>& leaf);

// The same of references to nodes alone.
Arg map_inputs(const Arg& arg, const std::function<Arg(NodeId)>& input);
void map_inputs(Node& node, const std::function<Arg(NodeId)>& input);

}  // namespace refx
