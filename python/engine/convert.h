// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <utility>

#include "engine/tables.h"
#include "engine/torch_fx.h"
#include "refx/node.h"

namespace refx::fx {

// Arguments and targets of torch.fx nodes as those of the library, and back.

Arg to_arg(Tables& tables, py::handle value, int depth = 0);
py::object from_arg(const Tables& tables, const Arg& arg);
py::tuple from_args(const Tables& tables, const Args& args);
py::dict from_kwargs(const Tables& tables, const Kwargs& kwargs);

Opcode to_opcode(py::handle op);
// Sets target; and for what refx has no word for, the opcode too.
void set_target(Tables& tables, py::handle target, Node& node);
// The torch.fx opcode and target.
std::pair<py::object, py::object> from_target(Tables& tables, const Node& node);

// A get_attr node that reads something else than a tensor is a call of an unknown function to refx.
inline constexpr std::string_view kOpaqueAttr = "get_attr ";

}  // namespace refx::fx
