// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "refx/node.h"
#include "text/arg_reader.h"
#include "text/cursor.h"

namespace refx {

// What a line of the graph says.
struct NodeLine {
  Node node;
  std::optional<std::int64_t> num_users;

  std::size_t name_at = 0, type_at = 0, users_at = 0, target_at = 0, state_at = 0;  // where
};

// "%linear : f32[2, 8] [num_users=1] = call_function[target=…](args = (…), kwargs = {…})"
// or "return linear".
NodeLine read_node_line(Cursor& cursor, ArgReader& args);

}  // namespace refx
