// SPDX-License-Identifier: Apache-2.0

#include "guarded_memory.h"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <unordered_map>

namespace refx::fuzz {
namespace {

constexpr std::size_t kMost = std::size_t{16} << 20;  // a hostile size must not take long

struct Mapping {
  void* start;
  std::size_t size;
};

// By the address that torch knows. Children have one thread.
std::unordered_map<void*, Mapping>& mappings() {
  static auto* all = new std::unordered_map<void*, Mapping>;  // tensors may outlive statics
  return *all;
}

void unmap(void* data) {
  const auto it = mappings().find(data);
  if (it == mappings().end()) return;  // no bytes were asked for
  munmap(it->second.start, it->second.size);
  mappings().erase(it);
}

class GuardedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device cpu(c10::kCPU);
    if (bytes == 0) return {nullptr, nullptr, unmap, cpu};
    TORCH_CHECK(bytes <= kMost, "no memory for ", bytes, " bytes");
    const std::size_t pages = (bytes + page_ - 1) / page_ * page_;
    auto* start = static_cast<char*>(
        mmap(nullptr, pages + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    TORCH_CHECK(start != MAP_FAILED, "no memory for ", bytes, " bytes");
    mprotect(start + page_, pages, PROT_READ | PROT_WRITE);
    at_end_ = !at_end_;
    char* data = start + page_ + (at_end_ ? pages - bytes : 0);
    std::memset(data, 0x7b, bytes);  // a large index where a kernel reads uninitialized memory
    mappings()[data] = {start, pages + 2 * page_};
    return {data, data, unmap, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return unmap; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

 private:
  std::size_t page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  bool at_end_ = false;
};

}  // namespace

void use_guarded_memory() { c10::SetCPUAllocator(new GuardedMemory, /*priority=*/255); }

}  // namespace refx::fuzz
