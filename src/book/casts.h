// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

namespace refx::book {

// The dtype to which a method of a tensor casts: Half for x.half(). Nothing for any other method,
// also for x.to() and x.type(), whose arguments name the dtype.
std::optional<c10::ScalarType> dtype_of_cast_method(std::string_view method);

}  // namespace refx::book
