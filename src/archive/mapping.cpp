// SPDX-License-Identifier: Apache-2.0

#include "archive/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "refx/error.h"

namespace refx {

namespace {

char* map(std::size_t size, int protection, int flags, int descriptor, const std::string& what) {
  void* data = mmap(nullptr, std::max<std::size_t>(size, 1), protection, flags, descriptor, 0);
  if (data == MAP_FAILED) throw Error(what + " (" + std::generic_category().message(errno) + ")");
  return static_cast<char*>(data);
}

}  // namespace

// Private pages are taken as they are written: reserving them would refuse models larger than
// memory.
Mapping::Mapping(const std::string& path, int descriptor, std::size_t size, Use use)
    : data_(map(size, use == Use::kRead ? PROT_READ : PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_NORESERVE, descriptor, path + ": cannot be mapped")),
      size_(size) {}

Mapping::Mapping(std::size_t size)
    : data_(map(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                "no memory for " + std::to_string(size) + " bytes")),
      size_(size) {}

Mapping::~Mapping() { munmap(data_, std::max<std::size_t>(size_, 1)); }

namespace {

constexpr std::uintptr_t kFewBytes = 1 << 16;  // not worth the calls

// What /proc/self/pagemap says of a page.
constexpr std::uint64_t kPresent = 1ull << 63, kSwapped = 1ull << 62, kOfFile = 1ull << 61;

bool all_clean(const std::uint64_t* begin, const std::uint64_t* end) {
  return std::any_of(begin, end, [](std::uint64_t page) { return page & kPresent; }) &&
         std::none_of(begin, end, [](std::uint64_t page) {
           return (page & (kPresent | kSwapped)) && !(page & kOfFile);
         });
}

}  // namespace

void drop_clean_pages(char* data, std::size_t size) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  std::uintptr_t at = (address + page - 1) / page * page;
  const std::uintptr_t end = (address + size) / page * page;
  if (end < at + kFewBytes) return;
  const int descriptor = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  std::array<std::uint64_t, 512> pages;
  while (at < end) {
    const std::size_t count = std::min<std::size_t>(pages.size(), (end - at) / page);
    const std::size_t bytes = count * sizeof pages[0];
    const auto place = static_cast<off_t>(at / page * sizeof pages[0]);
    if (pread(descriptor, pages.data(), bytes, place) != static_cast<ssize_t>(bytes)) break;
    if (all_clean(pages.data(), pages.data() + count))
      madvise(reinterpret_cast<void*>(at), count * page, MADV_DONTNEED);
    at += count * page;
  }
  close(descriptor);
}

}  // namespace refx
