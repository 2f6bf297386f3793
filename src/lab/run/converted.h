#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "refx/model.h"

namespace refx {

// The argument with every value in it, however deep, replaced by what the function gives for it.
Arg mapped(const Arg& arg, const std::function<Arg(const Arg&)>& leaf);
void map_arguments(Node& node, const std::function<Arg(const Arg&)>& leaf);

// A copy, without history, whose tensors and nodes went through these functions. Tied tensors stay
// one tensor.
Model converted(const Model& model, const std::function<at::Tensor(const at::Tensor&)>& tensor,
                const std::function<void(Node&)>& node);

}  // namespace refx
