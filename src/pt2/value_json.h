#pragma once

#include <simdjson.h>

#include <functional>
#include <string>

#include "refx/graph.h"

namespace refx {

// Arguments in a saved history: exact, whatever they are; nodes by name.
void append_value(std::string& out, const Arg& arg,
                  const std::function<std::string(NodeId)>& name_of);
void append_values(std::string& out, const Kwargs& kwargs,
                   const std::function<std::string(NodeId)>& name_of);

using FindNode = std::function<NodeId(std::string_view)>;
Arg read_value(const simdjson::dom::element& element, const FindNode& find, int depth = 0);
Kwargs read_values(const simdjson::dom::element& element, const FindNode& find);

}  // namespace refx
