// SPDX-License-Identifier: Apache-2.0

#include "text/zeros.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/quantized/QTensorImpl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>

#include "book/enum_names.h"
#include "refx/error.h"
#include "text/extent.h"

namespace refx {

namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
constexpr std::int64_t kMostSparseElements = std::int64_t{1} << 28;
constexpr std::int64_t kMapFrom = std::int64_t{1} << 16;

struct Mapping {
  void* data;
  std::size_t bytes;
  ~Mapping() { munmap(data, bytes); }
};

// Pages of zeros that the system provides when they are touched.
c10::DataPtr map_zeros(std::size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) throw Error(fmt::format("no memory for a tensor of {} bytes", bytes));
  const auto release = [](void* mapping) { delete static_cast<Mapping*>(mapping); };
  return {data, new Mapping{data, bytes}, release, c10::kCPU};
}

void require_sane(const TensorSpec& spec) {
  for (std::int64_t size : spec.sizes)
    if (size < 0) throw Error(fmt::format("a size of {}", size));
  if (spec.offset < 0) throw Error(fmt::format("an offset of {}", spec.offset));
  if (spec.dtype == c10::ScalarType::Undefined) throw Error("a tensor needs a dtype");
  if (spec.requires_grad && !c10::isFloatingType(spec.dtype) && !c10::isComplexType(spec.dtype))
    throw Error(
        fmt::format("a tensor of {} cannot require a gradient", names_of(spec.dtype).brief));
  if (!spec.strides) return;
  if (spec.strides->size() != spec.sizes.size())
    throw Error(fmt::format("{} sizes, but {} strides", spec.sizes.size(), spec.strides->size()));
  for (std::int64_t stride : *spec.strides)
    if (stride < 0) throw Error(fmt::format("a stride of {}", stride));
}

// The strides, where the tensor and the number of its elements fit into 64 bits.
std::vector<std::int64_t> strides_of(const TensorSpec& spec) {
  auto contiguous = checked_contiguous_strides(spec.sizes);
  if (!contiguous) throw Error("more elements than a tensor can have");
  return spec.strides ? *spec.strides : *contiguous;
}

std::int64_t bytes_of(const TensorSpec& spec, const std::vector<std::int64_t>& strides) {
  const auto item_bytes = static_cast<std::int64_t>(c10::elementSize(spec.dtype));
  const auto bytes = bytes_needed(spec.sizes, strides, spec.offset, item_bytes);
  if (!bytes || *bytes > kMostBytes) throw Error("a tensor of more than a terabyte");
  return *bytes;
}

// A tensor over a storage that is large enough. Made by hand, because torch's factories have no
// kernels for the rarer dtypes.
at::TensorBase view(const TensorSpec& spec, c10::Storage storage,
                    const std::vector<std::int64_t>& strides) {
  const c10::DispatchKeySet keys(
      c10::computeDispatchKey(spec.dtype, spec.layout, storage.device()));
  const auto meta = c10::scalarTypeToTypeMeta(spec.dtype);
  at::Tensor tensor =
      c10::isQIntType(spec.dtype)
          ? at::detail::make_tensor<at::QTensorImpl>(
                std::move(storage), keys, meta,
                at::make_per_tensor_affine_quantizer(1.0, 0, spec.dtype))
          : at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, meta);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(spec.sizes, strides, spec.offset);
  return tensor.set_requires_grad(spec.requires_grad);
}

at::TensorBase sparse(const TensorSpec& spec) {
  std::int64_t elements = 1;
  for (std::int64_t size : spec.sizes)
    if (__builtin_mul_overflow(elements, std::max<std::int64_t>(size, 1), &elements) ||
        elements > kMostSparseElements)
      throw Error("a sparse tensor of more than 2^28 elements");
  if (spec.strides || spec.offset != 0 || spec.storage_bytes)
    throw Error(fmt::format("a tensor with layout {} has no strides, offset or storage",
                            name_of(spec.layout)));
  const auto options = at::TensorOptions(spec.dtype).layout(spec.layout).device(spec.device);
  return at::zeros(spec.sizes, options).set_requires_grad(spec.requires_grad);
}

// What torch refuses is bad input to us.
template <class F>
at::TensorBase refusing(F&& make) {
  try {
    return make();
  } catch (const c10::Error& error) {
    throw Error(error.what_without_backtrace());
  }
}

}  // namespace

c10::Storage Zeros::storage(std::int64_t bytes, c10::Device device) {
  total_bytes_ += bytes;
  if (total_bytes_ > kMostBytes) throw Error("tensors of more than a terabyte in all");
  if (device.is_cpu() && bytes >= kMapFrom) {
    const auto size = static_cast<std::size_t>(bytes);
    return c10::Storage(c10::Storage::use_byte_size_t(), size, map_zeros(size));
  }
  return at::zeros({bytes}, at::TensorOptions(c10::kByte).device(device)).storage();
}

at::TensorBase Zeros::make(const TensorSpec& spec) {
  require_sane(spec);
  if (spec.layout != c10::kStrided) return refusing([&] { return sparse(spec); });
  const auto strides = strides_of(spec);
  const std::int64_t needed = bytes_of(spec, strides);
  const std::int64_t bytes = spec.storage_bytes.value_or(needed);
  if (bytes < needed)
    throw Error(fmt::format("{} bytes of storage, but it needs {}", bytes, needed));
  if (bytes > kMostBytes) throw Error("a storage of more than a terabyte");
  return refusing([&] { return view(spec, storage(bytes, spec.device), strides); });
}

at::TensorBase Zeros::make(const TensorSpec& spec, const at::TensorBase& shared) {
  require_sane(spec);
  if (spec.layout != c10::kStrided || !shared.has_storage() || shared.layout() != c10::kStrided)
    throw Error("only strided tensors share a storage");
  if (spec.device != shared.device())
    throw Error("tensors on different devices cannot share a storage");
  if (spec.storage_bytes) throw Error("the size of a storage is stated where it is first used");
  const auto strides = strides_of(spec);
  const std::int64_t needed = bytes_of(spec, strides);
  const auto available = static_cast<std::int64_t>(shared.storage().nbytes());
  if (needed > available)
    throw Error(
        fmt::format("it needs {} bytes, but the storage that it shares has {}", needed, available));
  return refusing([&] { return view(spec, shared.storage(), strides); });
}

}  // namespace refx
