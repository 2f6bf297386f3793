// SPDX-License-Identifier: Apache-2.0

#include "text/read_state_line.h"

#include "text/read_type.h"

namespace refx {

namespace {

void read_attribute(Cursor& cursor, StateLine& line) {
  const std::size_t at = cursor.position();
  const std::string key = cursor.name("an attribute");
  cursor.expect('=');
  if (key == "persistent") {
    line.persistent = cursor.boolean();
  } else if (key == "shares") {
    line.shares_at = cursor.position();
    line.shares = cursor.name("the name of a state entry");
  } else if (key == "offset") {
    line.offset = cursor.integer();
  } else if (key == "storage") {
    line.storage_bytes = cursor.integer();
  } else if (!read_type_attribute(cursor, key, line.type)) {
    unknown_attribute(cursor, at, key,
                      {"strides", "device", "layout", "requires_grad", "persistent", "shares",
                       "offset", "storage"});
  }
}

}  // namespace

StateLine read_state_line(Cursor& cursor) {
  StateLine line;
  line.name_at = cursor.position();
  line.name = cursor.name("the name of a state entry");
  cursor.expect(':');
  line.type_at = cursor.position();
  line.type = read_type(cursor);
  while (!cursor.at_line_end()) read_attribute(cursor, line);
  return line;
}

}  // namespace refx
