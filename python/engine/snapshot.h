// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBase.h>

#include <optional>

namespace refx::fx {

// What identifies a tensor and its contents at the last read.
struct TensorSnapshot {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  c10::Device device = c10::kCPU;
  const void* data = nullptr;
  // A hash of the contents, for tensors that a step made. It detects writes that do not increase
  // the version counter, such as writes through tensor.data.
  std::optional<std::uint64_t> sample = {};
  bool operator==(const TensorSnapshot&) const = default;
  static TensorSnapshot of(const at::TensorBase& tensor, bool sampled);
};

}  // namespace refx::fx
