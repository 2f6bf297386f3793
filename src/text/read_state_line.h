// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "refx/type.h"
#include "text/cursor.h"

namespace refx {

// What a state line says after its kind: "q.weight : f32[8, 4] shares=k.weight offset=32".
struct StateLine {
  std::string name;
  TensorType type;
  bool persistent = true;
  std::optional<std::string> shares;
  std::int64_t offset = 0;
  std::optional<std::int64_t> storage_bytes;

  std::size_t name_at = 0, type_at = 0, shares_at = 0;  // where it says so
};

StateLine read_state_line(Cursor& cursor);

}  // namespace refx
