// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "pt2/dom_json.h"
#include "refx/graph.h"

namespace refx {

// Arguments in a saved history: exact, whatever they are; nodes by name.
using NameOf = std::function<std::string_view(NodeId)>;
void append_value(std::string& out, const Arg& arg, const NameOf& name_of);
void append_values(std::string& out, const Kwargs& kwargs, const NameOf& name_of);

using FindNode = std::function<NodeId(std::string_view)>;
Arg read_value(const dom::element& element, const FindNode& find, int depth = 0);
Args read_list(const dom::element& element, std::string_view name, const FindNode& find,
               int depth = 0);
Kwargs read_values(const dom::element& element, const FindNode& find);

// By the numbers that c10 has for them.
c10::ScalarType read_dtype(const dom::element& value);
c10::Layout read_layout(const dom::element& value);
c10::Device read_device(const dom::element& value);

}  // namespace refx
