// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBase.h>

#include <optional>

namespace refx::fx {

// A tensor as it was when it was last read.
struct TensorSnapshot {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  c10::Device device = c10::kCPU;
  const void* data = nullptr;
  // Of the contents of one that a step made: tells of writes that no version counter counts, as
  // those through tensor.data.
  std::optional<std::uint64_t> sample = {};
  bool operator==(const TensorSnapshot&) const = default;
  static TensorSnapshot of(const at::TensorBase& tensor, bool sampled);
};

}  // namespace refx::fx
