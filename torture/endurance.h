// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace refx::torture {

// Calls `trial(seed)`, which answers how much it did, with new seeds until TORTURE_S seconds have
// passed (2 if it is not set) or something is wrong, and prints how much it was. REFX_SEED starts
// elsewhere.
void endure(const std::string& what, const std::function<int(std::uint64_t seed)>& trial);

}  // namespace refx::torture
