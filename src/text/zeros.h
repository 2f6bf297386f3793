// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBase.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace refx {

// A tensor as a state line states it.
struct TensorSpec {
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<std::int64_t> sizes;
  std::optional<std::vector<std::int64_t>> strides;  // none: contiguous
  std::int64_t offset = 0;
  std::optional<std::int64_t> storage_bytes;  // none: what the tensor needs
  c10::Device device = c10::kCPU;
  c10::Layout layout = c10::kStrided;
  bool requires_grad = false;
};

// Makes tensors of zeros, and refuses, with an Error that says why, what cannot be made or what is
// more than a terabyte in all. Large ones take up memory only where they are written.
class Zeros {
 public:
  at::TensorBase make(const TensorSpec& spec);
  // In the storage of another tensor.
  at::TensorBase make(const TensorSpec& spec, const at::TensorBase& shared);

 private:
  c10::Storage storage(std::int64_t bytes, c10::Device device);

  std::int64_t total_bytes_ = 0;
};

}  // namespace refx
