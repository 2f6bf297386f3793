// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <typeindex>
#include <vector>

#include "refx/export.h"
#include "refx/model.h"

namespace torch::nn {
class Module;
class AnyModule;
}  // namespace torch::nn

namespace refx {

// The graph of a torch::nn::Sequential or of one layer, in the module dialect. Shares the module's
// tensors. Throws Error that names the first module whose forward is not known, such as a user's
// own.
REFX_API Model from_module(const torch::nn::Module& module);
REFX_API Model from_module(const torch::nn::AnyModule& module);
// A Sequential inside another is, in C++, a class derived from it, whose forward may do more: name
// the types of those that only run their layers.
REFX_API Model from_module(const torch::nn::Module& module,
                           const std::vector<std::type_index>& plain_sequentials);

}  // namespace refx
