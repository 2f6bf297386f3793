// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace refx {

// A file that appears at its path whole, or not at all: it is written without a name (or under a
// name of its own, where the file system knows no nameless files), synced, and then takes the place
// of what was there, with its owner and permissions. A symbolic link stays; its target is replaced.
// Dropped without commit(), or killed, it leaves the path as it was and no other file behind.
class AtomicFile {
 public:
  // Throws Error if the path cannot be written.
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);  // at the end; the disk begins with it at once
  void commit();
  int descriptor() const { return descriptor_; }

  // Throws the Error for a failed system call.
  [[noreturn]] void fail(int error) const;

 private:
  void open_temporary();
  void start_writing_back();
  void take_over_permissions();
  bool link_as(const std::string& name);
  void replace_target();
  void drop() noexcept;

  std::string path_;    // as given
  std::string folder_;  // of the file itself, links followed
  std::string name_;
  std::string temporary_;  // empty while it has no name
  bool exists_ = false;
  int folder_descriptor_ = -1;
  int descriptor_ = -1;
  std::int64_t written_ = 0, started_ = 0;  // bytes; those that the disk was told of
};

void write_atomically(const std::string& path, std::string_view bytes);

}  // namespace refx
