// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "pt2/dom_json.h"
#include "refx/type.h"

namespace refx {

// The type of a node in a saved history. append_type() writes what read_type() reads.
void append_type(std::string& out, const TensorType& type);
TensorType read_type(const dom::element& item);

}  // namespace refx
