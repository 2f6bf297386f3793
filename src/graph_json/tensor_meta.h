// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "graph_json/read_json.h"
#include "graph_json/symbols.h"
#include "refx/type.h"

namespace refx {

// What the file says of a tensor.
struct TensorMeta {
  TensorType type;           // strides left empty where they are contiguous
  std::vector<Dim> strides;  // always
  Dim offset;                // into the storage
};

// A symbolic expression, readable.
std::string read_expression(JsonDocument& document, ondemand::object expr, Symbols& symbols);

TensorMeta read_tensor_meta(JsonDocument& document, ondemand::object object, Symbols& symbols);
// `offset`: of a stored tensor into its storage.
void append_tensor_meta(std::string& out, const TensorType& type, const Symbols& symbols,
                        std::int64_t offset = 0);

}  // namespace refx
