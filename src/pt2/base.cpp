// SPDX-License-Identifier: Apache-2.0

#include "pt2/base.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <vector>

#include "pt2/safetensors.h"
#include "refx/error.h"
#include "refx/original.h"
#include "refx/pt2.h"

namespace refx {

namespace {

constexpr const char* kSafetensors = ".safetensors";

class OriginalOfFile final : public Base {
 public:
  explicit OriginalOfFile(const std::string& path) : original_(original_of(load(path))) {}

  at::TensorBase find(const std::string& name) const override {
    const StateId id = original_.state().find(name);
    return id ? original_.state().tensor(id) : at::TensorBase();
  }
  std::shared_ptr<const Source> source() const override { return original_.source(); }

 private:
  Model original_;
};

class TensorFiles final : public Base {
 public:
  explicit TensorFiles(const std::vector<std::string>& paths) {
    files_.reserve(paths.size());
    for (const std::string& path : paths) {
      const Safetensors& file = files_.emplace_back(path);
      for (const auto& [name, entry] : file.entries())
        if (const auto [it, is_new] = of_.emplace(name, &file); !is_new)
          throw Error(fmt::format("'{}' stands in {} and in {}", name, it->second->path(), path));
    }
  }

  at::TensorBase find(const std::string& name) const override {
    const auto it = of_.find(name);
    return it == of_.end() ? at::TensorBase() : it->second->read(name);
  }

 private:
  std::vector<Safetensors> files_;
  std::unordered_map<std::string, const Safetensors*> of_;
};

std::vector<std::string> tensor_files(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed))
    if (entry.path().extension() == kSafetensors) paths.push_back(entry.path().string());
  if (failed) throw Error(fmt::format("{}: cannot be read ({})", folder, failed.message()));
  if (paths.empty()) throw Error(fmt::format("{}: there is no {} file", folder, kSafetensors));
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::unique_ptr<Base> Base::open(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown))
    return std::make_unique<TensorFiles>(tensor_files(path));
  if (path.ends_with(kSafetensors))
    return std::make_unique<TensorFiles>(std::vector<std::string>{path});
  return std::make_unique<OriginalOfFile>(path);
}

}  // namespace refx
