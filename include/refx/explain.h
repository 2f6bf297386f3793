// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "refx/export.h"

namespace refx {

// What a transformation does, by its name: before, after, what it refuses. Or why a place was
// refused, by the reason that was given or a part of it: what that means, an example, what to do.
// Throws Error that names what is near.
REFX_API std::string explain(std::string_view what);

}  // namespace refx
