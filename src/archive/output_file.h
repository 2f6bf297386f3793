// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "archive/atomic_file.h"

namespace refx {

struct Blob;

// Buffered writing to an AtomicFile. What was not committed is dropped.
class Output {
 public:
  explicit Output(const std::string& path);

  std::uint64_t position() const { return position_; }
  void write(std::string_view bytes);
  // Returns the bytes' CRC-32. A record of another archive must have the one it states.
  std::uint32_t write(const Blob& blob);
  // The descriptor of the file, which has all that was written so far.
  int flushed();
  void commit();

 private:
  std::uint32_t write_memory(std::string_view bytes);
  std::uint32_t write_record(const Blob& blob);
  void flush();

  AtomicFile file_;
  std::unique_ptr<char[]> buffer_;
  std::size_t used_ = 0;
  std::uint64_t position_ = 0;
};

}  // namespace refx
