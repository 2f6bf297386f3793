#pragma once

#include <string>
#include <string_view>

namespace refx {

// "torch.ops.aten.linear.default" in a file is "aten.linear.default" in a model, and
// "_operator.mul" is "operator.mul".
std::string target_from_file(std::string_view target);
std::string target_for_file(std::string_view target);

}  // namespace refx
