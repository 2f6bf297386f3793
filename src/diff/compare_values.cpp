// SPDX-License-Identifier: Apache-2.0

#include "diff/compare_values.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/content.h"

namespace refx {

namespace {

// Bounds the memory that fp64 copies take.
constexpr std::int64_t kChunk = 1 << 20;

bool same_memory(const at::TensorBase& a, const at::TensorBase& b) {
  if (a.is_same(b)) return true;
  return a.layout() == c10::kStrided && b.layout() == c10::kStrided && a.has_storage() &&
         b.has_storage() && !a.is_quantized() && !b.is_quantized() &&
         a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl() &&
         a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

at::Tensor flat(const at::TensorBase& tensor) {
  at::Tensor t(tensor);
  t = t.detach();
  if (t.layout() != c10::kStrided) t = t.to_dense();
  if (t.is_quantized()) t = t.dequantize();
  return t.cpu().resolve_conj().resolve_neg().contiguous().view({-1});
}

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         (a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

at::Tensor wide(const at::Tensor& t) {
  return t.to(t.is_complex() ? at::kComplexDouble : at::kDouble);
}

// Adds the elements of two chunks that are not the same bytes.
void add(const at::Tensor& a, const at::Tensor& b, Difference::Values& values) {
  if (same_bytes(a, b)) return;
  const auto size = static_cast<std::size_t>(a.element_size());
  const auto* x = static_cast<const char*>(a.const_data_ptr());
  const auto* y = static_cast<const char*>(b.const_data_ptr());
  const at::Tensor distance = (wide(a) - wide(b)).abs();
  const double* d = distance.const_data_ptr<double>();
  for (std::int64_t i = 0; i < a.numel(); ++i, x += size, y += size) {
    if (std::memcmp(x, y, size) == 0) continue;
    ++values.different;
    if (!(d[i] <= values.max_abs))
      values.max_abs = std::isnan(values.max_abs) ? values.max_abs : d[i];
  }
}

}  // namespace

std::optional<Difference::Values> compare_values(const at::TensorBase& a, const at::TensorBase& b) {
  if (same_memory(a, b)) return {};
  require_content(a);
  require_content(b);
  const at::NoGradGuard no_grad;
  const at::Tensor x = flat(a), y = flat(b);
  if (same_bytes(x, y)) return {};
  Difference::Values values{.different = 0, .of = static_cast<std::uint64_t>(x.numel())};
  for (std::int64_t at = 0; at < x.numel(); at += kChunk) {
    const std::int64_t n = std::min(kChunk, x.numel() - at);
    add(x.narrow(0, at, n), y.narrow(0, at, n), values);
  }
  return values;
}

}  // namespace refx
