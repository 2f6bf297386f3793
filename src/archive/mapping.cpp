#include "archive/mapping.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
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

}  // namespace refx
