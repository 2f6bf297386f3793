#pragma once

#include "refx/model.h"

namespace torch::nn {
class Module;
class AnyModule;
}

namespace refx {

// The graph of a torch::nn::Sequential (nested ones too) or of one layer, in the module dialect.
// Shares the module's tensors. Throws Error that names the first module whose forward is not
// known, such as a user's own.
Model from_module(const torch::nn::Module& module);
Model from_module(const torch::nn::AnyModule& module);

}  // namespace refx
