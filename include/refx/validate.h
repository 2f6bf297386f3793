#pragma once

#include <string>
#include <vector>

#include "refx/model.h"

namespace refx {

// What is wrong with the model; empty if nothing. Looks at SSA order, users, names, bindings of
// placeholders, get_attrs and modules, and types against tensors.
std::vector<std::string> problems(const Model& model);
// The same for one node.
std::vector<std::string> problems(const Model& model, NodeId node);
// The same for what a journal touched.
std::vector<std::string> problems(const Model& model, const std::vector<Edit>& edits);
// Throws Error with the first problems.
void validate(const Model& model);

}  // namespace refx
