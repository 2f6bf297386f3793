#pragma once

#include <string>
#include <unordered_map>

#include "pt2/source.h"
#include "refx/editor.h"

namespace refx {

// What the graph's signature says of a stored tensor.
enum class StateRole { parameter, buffer, other_buffer /* not persistent */, constant };
using StateRoles = std::unordered_map<std::string, StateRole>;

// Reads the configs of weights and constants. Tensors that share a record share a storage.
void read_state(Pt2Source& source, Editor& editor, const StateRoles& roles);

}  // namespace refx
