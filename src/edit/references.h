// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "refx/model.h"

namespace refx {

// Those of problems() that are about what nodes refer to: nodes before them, tensors, modules. An
// output that is not the last node is none; torch.fx has such graphs.
std::vector<std::string> broken_references(const Model& model, NodeId node);
std::vector<std::string> broken_references(const Model& model, const std::vector<Edit>& edits);

}  // namespace refx
