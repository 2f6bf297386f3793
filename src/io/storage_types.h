// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace refx {

// Python's storage classes. Other dtypes use an untyped storage: Undefined.
inline constexpr std::array kStorageTypes =
    std::to_array<std::pair<std::string_view, c10::ScalarType>>({
        {"torch.FloatStorage", c10::ScalarType::Float},
        {"torch.DoubleStorage", c10::ScalarType::Double},
        {"torch.HalfStorage", c10::ScalarType::Half},
        {"torch.BFloat16Storage", c10::ScalarType::BFloat16},
        {"torch.LongStorage", c10::ScalarType::Long},
        {"torch.IntStorage", c10::ScalarType::Int},
        {"torch.ShortStorage", c10::ScalarType::Short},
        {"torch.CharStorage", c10::ScalarType::Char},
        {"torch.ByteStorage", c10::ScalarType::Byte},
        {"torch.BoolStorage", c10::ScalarType::Bool},
        {"torch.ComplexFloatStorage", c10::ScalarType::ComplexFloat},
        {"torch.ComplexDoubleStorage", c10::ScalarType::ComplexDouble},
        {"torch.storage.UntypedStorage", c10::ScalarType::Undefined},
    });

inline std::optional<c10::ScalarType> find_storage_type(std::string_view name) {
  for (const auto& [known, dtype] : kStorageTypes)
    if (known == name) return dtype;
  return std::nullopt;
}

}  // namespace refx
