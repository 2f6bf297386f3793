// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "refx/export.h"
#include "refx/name.h"

namespace at {
class TensorBase;
}

namespace refx {

// One size or stride: a number, or an expression over the graph's symbols ("s0", "2*s0").
struct Dim {
  std::int64_t value = 0;  // for an expression: its hint, or -1
  Name expr;               // empty: a plain number

  Dim() = default;
  Dim(std::int64_t v) : value(v) {}
  Dim(Name e, std::int64_t hint) : value(hint), expr(std::move(e)) {}
  bool known() const { return expr.empty(); }
  bool operator==(const Dim&) const = default;
};

// What is known of a value without running the graph.
struct TensorType {
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<Dim> sizes;
  std::vector<Dim> strides;  // empty: contiguous
  c10::Device device = c10::kCPU;
  c10::Layout layout = c10::kStrided;
  bool requires_grad = false;
  bool operator==(const TensorType&) const = default;
};

using TypePtr = std::shared_ptr<const TensorType>;  // null: nothing is known

REFX_API TypePtr type_of(const at::TensorBase& tensor);
// Strides of a contiguous tensor of these sizes, as expressions where sizes are.
REFX_API std::vector<Dim> contiguous_strides(const std::vector<Dim>& sizes);
// Its strides, also where the type leaves them empty.
REFX_API std::vector<Dim> strides_of(const TensorType& type);
// Whether the sizes are the same. Symbols are the same whatever example they were traced with.
REFX_API bool same_size(const Dim& a, const Dim& b);
REFX_API bool same_sizes(const TensorType& a, const TensorType& b);
// The same type with another last dimension, contiguous.
REFX_API TypePtr with_last_dim(const TypePtr& type, std::int64_t size);

}  // namespace refx
