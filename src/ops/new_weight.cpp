// SPDX-License-Identifier: Apache-2.0

#include "ops/new_weight.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/accumulate.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace refx {

namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;
constexpr std::size_t kWorth = kLargePage / 4;  // below, one large page costs more than small ones
constexpr std::size_t kOwn = kLargePage * 4;    // from here, a weight has its pages for itself
constexpr std::size_t kBlock = kLargePage * 16;

// Only whole pages become large: no more memory is taken than was asked for.
char* large_pages(std::size_t size) {
  void* data = nullptr;
  if (posix_memalign(&data, kLargePage, size) != 0) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  madvise(data, size / kLargePage * kLargePage, MADV_HUGEPAGE);
#endif
  return static_cast<char*>(data);
}

// A run of pages, of which weights take their parts one after another. The parts keep it.
class Block {
 public:
  void* take(std::size_t size) {
    constexpr std::size_t kAlignment = 64;
    const std::size_t at = (taken_ + kAlignment - 1) / kAlignment * kAlignment;
    if (size > kBlock - at) return nullptr;
    taken_ = at + size;
    return memory_.get() + at;
  }

 private:
  struct Free {
    void operator()(char* data) const { std::free(data); }
  };
  std::unique_ptr<char, Free> memory_{large_pages(kBlock)};
  std::size_t taken_ = 0;
};
using BlockPtr = std::shared_ptr<Block>;

class LargePages final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    try {
      if (size >= kOwn) return own(size);
      if (size >= kWorth) return part(size);
    } catch (const std::bad_alloc&) {  // torch may have some, or says how much was asked for
    }
    return c10::GetCPUAllocator()->allocate(size);
  }

  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

 private:
  static c10::DataPtr own(std::size_t size) {
    char* data = large_pages(size);
    return {data, data, &std::free, c10::kCPU};
  }

  static c10::DataPtr part(std::size_t size) {
    thread_local std::weak_ptr<Block> last;
    BlockPtr block = last.lock();
    void* data = block ? block->take(size) : nullptr;
    if (!data) {
      last = block = std::make_shared<Block>();
      data = block->take(size);
    }
    auto* keeper = new BlockPtr(std::move(block));
    return {data, keeper, [](void* block) { delete static_cast<BlockPtr*>(block); }, c10::kCPU};
  }
};

at::Tensor empty_in_large_pages(at::IntArrayRef sizes, at::IntArrayRef strides,
                                at::ScalarType dtype) {
  static LargePages* const pages = new LargePages;  // tensors may live longer than anything else
  return at::Tensor(at::detail::empty_strided_generic(
      sizes, strides, pages, c10::DispatchKeySet(c10::DispatchKey::CPU), dtype));
}

// Whether its values are few and lie in memory, one after the other: then they are copied before
// torch has seen what it has to do.
bool is_small(const at::Tensor& tensor) {
  constexpr std::int64_t kFew = 1 << 14;
  return tensor.numel() <= kFew && tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_neg() &&
         !tensor.is_conj() && !tensor.key_set().has(c10::DispatchKey::Python) &&
         tensor.const_data_ptr();
}

// Each row of the whole is one of each part, side by side.
void copy_rows(const std::vector<at::Tensor>& parts, std::int64_t rows, const at::Tensor& whole) {
  auto* to = static_cast<char*>(whole.mutable_data_ptr());
  for (std::int64_t row = 0; row < rows; ++row)
    for (const at::Tensor& part : parts) {
      const std::size_t size = part.nbytes() / rows;
      std::memcpy(to, static_cast<const char*>(part.const_data_ptr()) + row * size, size);
      to += size;
    }
}

}  // namespace

at::Tensor empty_like_weight(const at::Tensor& weight) {
  const bool large =
      weight.is_cpu() && weight.is_non_overlapping_and_dense() && weight.nbytes() >= kWorth;
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
  const bool small = std::all_of(parts.begin(), parts.end(), is_small);
  const bool large = bytes >= kWorth && parts[0].is_cpu();
  if (!small && !large) return at::cat(parts, dim);
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) strides[i] = stride;
  at::Tensor whole = large ? empty_in_large_pages(sizes, strides, parts[0].scalar_type())
                           : at::detail::empty_cpu(sizes, parts[0].options());
  if (!small) return at::cat_out(whole, parts, dim);
  copy_rows(parts, c10::multiply_integers(sizes.begin(), sizes.begin() + dim), whole);
  return whole;
}

}  // namespace refx
