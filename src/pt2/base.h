// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBase.h>

#include <memory>
#include <string>

#include "refx/source.h"

namespace refx {

// Tensors by name, from which originals are attached.
class Base {
 public:
  // A .pt2 file, as it was before its first step; a .safetensors file; a folder of those.
  static std::unique_ptr<Base> open(const std::string& path);
  virtual ~Base() = default;

  // Undefined if there is none.
  virtual at::TensorBase find(const std::string& name) const = 0;
  // The file behind the tensors, if they are not copies of it.
  virtual std::shared_ptr<const Source> source() const { return nullptr; }
};

}  // namespace refx
