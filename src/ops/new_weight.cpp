#include "ops/new_weight.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <cstdlib>

namespace refx {

namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;

class LargePages final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    void* data = nullptr;
    if (size < kLargePage || posix_memalign(&data, kLargePage, size) != 0)
      return c10::GetCPUAllocator()->allocate(size);
#ifdef MADV_HUGEPAGE
    // Only whole ones: no more memory is taken than was asked for.
    madvise(data, size / kLargePage * kLargePage, MADV_HUGEPAGE);
#endif
    return {data, data, &std::free, c10::kCPU};
  }

  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }
};

at::Tensor empty_in_large_pages(at::IntArrayRef sizes, at::IntArrayRef strides,
                                at::ScalarType dtype) {
  static LargePages* const pages = new LargePages;  // tensors may live longer than anything else
  return at::Tensor(at::detail::empty_strided_generic(
      sizes, strides, pages, c10::DispatchKeySet(c10::DispatchKey::CPU), dtype));
}

}  // namespace

at::Tensor empty_like_weight(const at::Tensor& weight) {
  const bool large =
      weight.is_cpu() && weight.is_non_overlapping_and_dense() && weight.nbytes() >= kLargePage;
  return large ? empty_in_large_pages(weight.sizes(), weight.strides(), weight.scalar_type())
               : at::empty_like(weight);
}

at::Tensor joined(const std::vector<at::Tensor>& parts, std::int64_t dim) {
  std::size_t bytes = 0;
  std::vector<std::int64_t> sizes = parts[0].sizes().vec(), strides(sizes.size());
  sizes[dim] = 0;
  for (const at::Tensor& part : parts) {
    bytes += part.nbytes();
    sizes[dim] += part.size(dim);
  }
  if (!parts[0].is_cpu() || bytes < kLargePage) return at::cat(parts, dim);
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) strides[i] = stride;
  at::Tensor whole = empty_in_large_pages(sizes, strides, parts[0].scalar_type());
  return at::cat_out(whole, parts, dim);
}

}  // namespace refx
