// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/content.h"

namespace refx {

// Contents that have left the model. What they were is known, not where they are: whoever needs
// them gets an Error that names them.
class Detached final : public Content, public std::enable_shared_from_this<Detached> {
 public:
  Detached(std::string name, c10::ScalarType dtype, std::size_t size, ContentHash hash)
      : name_(std::move(name)), dtype_(dtype), size_(size), hash_(hash) {}

  const std::string& name() const { return name_; }  // of the tensor
  c10::ScalarType dtype() const { return dtype_; }
  const ContentHash& hash() const { return hash_; }  // of all its bytes, as they lay in memory
  void* data() const override { return nullptr; }
  std::size_t size() const override { return size_; }

 private:
  void provide() override;

  std::string name_;
  c10::ScalarType dtype_;
  std::size_t size_;
  ContentHash hash_;
};

// Memory that cannot be read: torch throws, too.
c10::Storage storage_of(const std::shared_ptr<Detached>& detached, c10::Device device);

// What a storage is without; null if it has its contents.
Detached* detached_in(const c10::Storage& storage);
Detached* detached_in(const at::TensorBase& tensor);

}  // namespace refx
