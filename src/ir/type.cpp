// SPDX-License-Identifier: Apache-2.0

#include "refx/type.h"

#include <ATen/core/TensorBase.h>

#include <algorithm>

namespace refx {

TypePtr type_of(const at::TensorBase& tensor) {
  auto type = std::make_shared<TensorType>();
  type->dtype = tensor.scalar_type();
  type->device = tensor.device();
  type->layout = tensor.layout();
  type->requires_grad = tensor.requires_grad();
  type->sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  if (tensor.layout() == c10::kStrided && !tensor.is_contiguous())
    type->strides.assign(tensor.strides().begin(), tensor.strides().end());
  return type;
}

namespace {

// What is too large for a number becomes some other: no tensor is as large.
std::int64_t wrapped(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  (void)__builtin_mul_overflow(a, b, &product);
  return product;
}

Dim product(const Dim& a, const Dim& b) {
  if (a.known() && b.known()) return wrapped(a.value, b.value);
  if (a.known() && a.value == 1) return b;
  if (b.known() && b.value == 1) return a;
  auto factor = [](const Dim& dim) {
    if (dim.known()) return std::to_string(dim.value);
    const bool sum = dim.expr.view().find_first_of("+-/ ") != std::string::npos;
    return sum ? "(" + dim.expr + ")" : std::string(dim.expr);
  };
  const bool hinted = a.value >= 0 && b.value >= 0;
  // Numbers come first, as sympy prints them.
  const bool swap = !a.known() && b.known();
  return {factor(swap ? b : a) + "*" + factor(swap ? a : b),
          hinted ? wrapped(a.value, b.value) : -1};
}

}  // namespace

std::vector<Dim> contiguous_strides(const std::vector<Dim>& sizes) {
  std::vector<Dim> strides(sizes.size());
  Dim next = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = next;
    next = product(next, sizes[i]);
  }
  return strides;
}

std::vector<Dim> strides_of(const TensorType& type) {
  return type.strides.empty() ? contiguous_strides(type.sizes) : type.strides;
}

// The hint of a symbol (`value`) is left out: it is the size of the example input.
bool same_size(const Dim& a, const Dim& b) {
  return a.expr == b.expr && (!a.known() || a.value == b.value);
}

bool same_sizes(const TensorType& a, const TensorType& b) {
  return std::equal(a.sizes.begin(), a.sizes.end(), b.sizes.begin(), b.sizes.end(), same_size);
}

TypePtr with_last_dim(const TypePtr& type, std::int64_t size) {
  if (!type || type->sizes.empty()) return nullptr;
  auto copy = std::make_shared<TensorType>(*type);
  copy->sizes.back() = size;
  copy->strides.clear();
  return copy;
}

}  // namespace refx
