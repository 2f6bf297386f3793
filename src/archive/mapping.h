// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace refx {

// A range of memory that the kernel provides: a file, or zeros.
class Mapping {
 public:
  enum class Use { kRead, kPrivateWrite };

  Mapping(const std::string& path, int descriptor, std::size_t size, Use use);
  explicit Mapping(std::size_t size);  // zeros, which take no memory until they are written
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  char* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  char* data_;
  std::size_t size_;
};

// Gives pages in a private mapping of a file back to the kernel, which has them again when they are
// read; those that were written to stay. For whoever has just read them: nobody else may be writing
// to them then.
void drop_clean_pages(char* data, std::size_t size);

}  // namespace refx
