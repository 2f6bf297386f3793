// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refx::testing {

// A folder that goes away with its contents.
class Folder {
 public:
  Folder();
  ~Folder();
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }
  std::vector<std::string> names() const;  // of what is in it, sorted

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::string& path);
void write_file(const std::string& path, std::string_view bytes);

// Record names with their contents, in order.
using Contents = std::vector<std::pair<std::string, std::string>>;

// Small and large records, an empty one, and what ends a file of torch.export.save.
Contents some_contents();

// The archive as PyTorch's own writer makes it; it adds the id.
void write_with_torch(const std::string& path, const Contents& contents);
// The same with ours.
void write_with_refx(const std::string& path, const std::string& root, const Contents& contents);

// All records, each checked.
Contents read_all(const std::string& path);

}  // namespace refx::testing
