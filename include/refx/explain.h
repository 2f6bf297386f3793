// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "refx/export.h"

namespace refx {

// Explains a transformation by its name: before, after, what it refuses. Or a reason for a refusal,
// by its code, its text or a part of the text: its meaning, an example, what to do. Throws Error
// that names a similar name.
REFX_API std::string explain(std::string_view what);

}  // namespace refx
