// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"

namespace refx {

// What is wrong with the model; empty if nothing. Looks at SSA order, users, names, bindings of
// placeholders, get_attrs and modules, and types against tensors.
REFX_API std::vector<std::string> problems(const Model& model);
// The same for one node.
REFX_API std::vector<std::string> problems(const Model& model, NodeId node);
// The same for what a journal touched.
REFX_API std::vector<std::string> problems(const Model& model, const std::vector<Edit>& edits);
// Throws Error with the first problems.
REFX_API void validate(const Model& model);

// Whether the edits do no more than erase nodes that compute a value and do nothing else: what
// nobody reads, and nobody misses.
REFX_API bool only_erase_values(const Model& model, const std::vector<Edit>& edits);

}  // namespace refx
