// SPDX-License-Identifier: Apache-2.0

#include "archive/output_file.h"

#include <algorithm>
#include <cstring>

#include "archive/checksum.h"
#include "archive/writer.h"
#include "refx/error.h"

namespace refx {

namespace {

constexpr std::size_t kBuffer = 1 << 18;

}  // namespace

Output::Output(const std::string& path)
    : file_(path), buffer_(std::make_unique_for_overwrite<char[]>(kBuffer)) {}

void Output::flush() {
  file_.write(std::string_view(buffer_.get(), used_));
  used_ = 0;
}

void Output::write(std::string_view bytes) {
  position_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), kBuffer - used_);
    std::memcpy(buffer_.get() + used_, bytes.data(), size);
    used_ += size;
    bytes.remove_prefix(size);
    if (used_ == kBuffer) flush();
  }
}

std::uint32_t Output::write(const Blob& blob) {
  REFX_CHECK((blob.archive == nullptr) == (blob.record == nullptr), "a record without its archive");
  return blob.record ? write_record(blob) : write_memory(blob.memory);
}

// In parts that stay in the cache between the checksum and the kernel's copy.
std::uint32_t Output::write_memory(std::string_view bytes) {
  std::uint32_t crc = 0;
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), kBuffer - used_);
    crc = crc32(crc, bytes.data(), size);
    if (size == kBuffer) {
      file_.write(bytes.substr(0, size));
      position_ += size;
    } else {
      write(bytes.substr(0, size));
    }
    bytes.remove_prefix(size);
  }
  return crc;
}

std::uint32_t Output::write_record(const Blob& blob) {
  const Record& record = *blob.record;
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < record.size;) {
    const std::size_t wanted = std::min<std::uint64_t>(record.size - done, kBuffer - used_);
    char* part = buffer_.get() + used_;
    const std::size_t size = blob.archive->read_part(record, done, part, wanted);
    crc = crc32(crc, part, size);
    used_ += size;
    position_ += size;
    done += size;
    if (used_ == kBuffer) flush();
  }
  if (crc != record.crc) fail_damaged(blob.archive->path(), record, crc);
  return crc;
}

int Output::flushed() {
  flush();
  return file_.descriptor();
}

void Output::commit() {
  flush();
  file_.commit();
}

}  // namespace refx
