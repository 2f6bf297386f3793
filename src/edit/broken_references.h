// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "refx/model.h"

namespace refx {

// The problems() that concern the references of nodes: to earlier nodes, tensors and modules. An
// output node that is not the last one is not among them, since torch.fx allows such graphs.
std::vector<std::string> broken_references(const Model& model, NodeId node);
std::vector<std::string> broken_references(const Model& model, const std::vector<Edit>& edits);

}  // namespace refx
