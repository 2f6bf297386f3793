// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

#include "graph_json/tensor_meta.h"
#include "pt2/source.h"
#include "refx/editor.h"

namespace refx {

// What the graph's signature says of a stored tensor.
enum class StateRole { parameter, buffer, other_buffer /* not persistent */, constant };
using StateRoles = std::unordered_map<std::string, StateRole>;

// What the config of weights or constants says of one tensor.
struct StoredState {
  std::string name;
  std::string_view config;  // its entry there
  std::string record;       // full name
  bool is_param = false, pickled = false;
  std::optional<TensorMeta> meta;
};

// Reads such a config, entry by entry. Those that PyTorch would read differently are an Error.
void read_config(JsonDocument& document, std::string_view folder, Symbols& symbols,
                 const std::function<void(StoredState)>& take);

// Reads the configs of weights and constants. Tensors that share a record share a storage.
void read_state(Pt2Source& source, Editor& editor, const StateRoles& roles);

}  // namespace refx
