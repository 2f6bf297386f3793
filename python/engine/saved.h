// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads what Mirror::save() wrote. Needs no Python.

#include <ATen/core/Tensor.h>

#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/snapshot.h"
#include "refx/model.h"

namespace refx::fx {

// The bytes begin with one of these.
inline constexpr std::string_view kFormat = "refx.fx 2\n";   // then the checksum, then the values
inline constexpr std::string_view kFormat1 = "refx.fx 1\n";  // the values alone

// Types whose values are saved as their bytes in memory.
template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

struct Saved {
  Model model;
  bool training = false;
  std::vector<TensorSnapshot> snapshots;  // by state id
};

// Throws Error if the bytes are not what save() wrote with these tensors.
Saved read_saved(std::string_view bytes, const std::vector<at::Tensor>& tensors);

}  // namespace refx::fx
