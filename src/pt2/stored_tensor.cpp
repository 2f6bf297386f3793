// SPDX-License-Identifier: Apache-2.0

#include "pt2/stored_tensor.h"

#include <ATen/core/Tensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/TensorImpl.h>
#include <fmt/format.h>

namespace refx {

namespace {

bool add_product(std::int64_t& sum, std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(sum, product, &sum);
}

std::vector<std::int64_t> numbers(const std::vector<Dim>& dims) {
  std::vector<std::int64_t> out;
  for (const Dim& dim : dims) out.push_back(dim.value);
  return out;
}

}  // namespace

std::string why_outside(const TensorMeta& meta, std::uint64_t bytes) {
  auto fixed = [](const Dim& dim) { return dim.known() && dim.value >= 0; };
  std::int64_t last = meta.offset.value, count = 1;
  bool fits = fixed(meta.offset);
  for (std::size_t i = 0; fits && i < meta.type.sizes.size(); ++i) {
    const Dim &size = meta.type.sizes[i], &stride = meta.strides[i];
    fits = fixed(size) && fixed(stride) && !__builtin_mul_overflow(count, size.value, &count) &&
           (size.value == 0 || add_product(last, size.value - 1, stride.value));
  }
  std::int64_t end = 0;
  const auto item = static_cast<std::int64_t>(c10::elementSize(meta.type.dtype));
  if (fits && count > 0)
    fits = add_product(end, last, item) && !__builtin_add_overflow(end, item, &end);
  if (fits && static_cast<std::uint64_t>(end) <= bytes) return "";
  return fmt::format(
      "its sizes, strides and storage_offset do not fit into the {} bytes of its record", bytes);
}

namespace {

at::Tensor over(const c10::Storage& storage, c10::ScalarType dtype, c10::IntArrayRef sizes,
                c10::IntArrayRef strides, std::int64_t offset) {
  const c10::InferenceMode ordinary_tensors(false);
  const auto key = storage.device().is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA;
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

}  // namespace

at::TensorBase tensor_in(const c10::Storage& storage, const TensorMeta& meta) {
  at::Tensor tensor = over(storage, meta.type.dtype, numbers(meta.type.sizes),
                           numbers(meta.strides), meta.offset.value);
  if (meta.type.requires_grad) tensor.set_requires_grad(true);
  return tensor;
}

at::TensorBase tensor_in(const c10::Storage& storage, const at::TensorBase& like) {
  at::Tensor tensor =
      over(storage, like.scalar_type(), like.sizes(), like.strides(), like.storage_offset());
  if (like.requires_grad()) tensor.set_requires_grad(true);
  return tensor;
}

at::TensorBase bytes_in(const c10::Storage& storage) {
  return over(storage, at::kByte, {static_cast<std::int64_t>(storage.nbytes())}, {1}, 0);
}

at::TensorBase stand_in(const TensorMeta* meta) {
  const c10::InferenceMode ordinary_tensors(false);
  auto options = at::TensorOptions().device(c10::kMeta);
  if (!meta) return at::empty({0}, options);
  options = options.dtype(meta->type.dtype);
  for (const Dim& size : meta->type.sizes)
    if (!size.known() || size.value < 0) return at::empty({0}, options);
  return at::empty(numbers(meta->type.sizes), options);
}

void append_stored_meta(std::string& out, const at::TensorBase& tensor) {
  append_tensor_meta(out, *type_of(tensor), Symbols(), tensor.storage_offset());
}

}  // namespace refx
