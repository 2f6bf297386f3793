// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBase.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace refx {

// A .safetensors file: eight bytes with the length of a header, the header as JSON, and the bytes
// of the tensors. Nothing in it is taken at its word. Throws Error that names the file.
class Safetensors {
 public:
  explicit Safetensors(const std::string& path);  // reads the header

  struct TensorEntry {
    std::string dtype;  // as the file calls it
    std::vector<std::int64_t> sizes;
    std::uint64_t begin = 0, end = 0;  // in the file
  };
  const std::string& path() const { return path_; }
  const std::map<std::string, TensorEntry>& entries() const { return entries_; }

  at::TensorBase read(const std::string& name) const;  // a copy

 private:
  void read_bytes(std::uint64_t from, char* to, std::size_t size) const;
  void read_header(std::uint64_t size, std::uint64_t of_file);

  std::string path_;
  std::shared_ptr<const int> file_;  // a descriptor
  std::map<std::string, TensorEntry> entries_;
};

}  // namespace refx
