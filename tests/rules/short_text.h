// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace refx::testing {

// The text of a model, from a shorter one with one thing on each line:
//
//     input x : f32[3, 4]
//     parameter fc.weight : f32[6, 4]                       (with its placeholder %p_fc_weight)
//     module act : torch.nn.ReLU()
//     y : f32[3, 6] = aten.linear.default(%x, %p_fc_weight)
//     z = method to(%y) {dtype: torch.float16}
//     w = module act(%z)
//     return w
std::string long_text(std::string_view short_text);

// The same as a rule leaves it whose result is what the model returns: marked, and with its memory
// in order, as it was.
std::string rewritten_text(std::string_view rule, std::string_view short_text);

}  // namespace refx::testing
