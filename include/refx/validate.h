// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

// Returns what is wrong with the model, or an empty list. Checks SSA order, users, names, the
// bindings of placeholders, get_attr nodes and modules, and that types agree with tensors.
REFX_API std::vector<std::string> problems(const Model& model);
// The same for one node.
REFX_API std::vector<std::string> problems(const Model& model, NodeId node);
// The same for the objects that these edits changed.
REFX_API std::vector<std::string> problems(const Model& model, const std::vector<Edit>& edits);
// Throws Error with the first problems.
REFX_API void validate(const Model& model);

// Returns true if all that the edits do is erase unused nodes without side effects.
REFX_API bool only_erase_values(const Model& model, const std::vector<Edit>& edits);

}  // namespace refx
