// SPDX-License-Identifier: Apache-2.0
#pragma once

// ir/: a model and its history, as values. Named things in an order, where erased ones keep their
// place; tensors whose contents come when they are needed.

#include <ATen/core/TensorBase.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include "refx/error.h"
#include "refx/state.h"

namespace refx {

// The contents are not to be had any more: what they were kept in was changed.
class LostContent : public Error {
 public:
  using Error::Error;
};

// Memory of a tensor whose contents are provided, or checked, when they are first needed: a mapped
// record of a file, an original that is a slice of another tensor. It hangs on the tensor's
// storage, so it goes wherever the tensor goes.
class Content {
 public:
  virtual ~Content() = default;
  // Provides the contents, once. Throws Error if they are damaged, every time.
  void require();
  // The contents have been read and are not needed for now: memory that gets them back by itself
  // need not keep them. Nobody may be writing to them.
  virtual void let_go() {}
  virtual void* data() const = 0;
  virtual std::size_t size() const = 0;

 protected:
  virtual void provide() = 0;

 private:
  std::mutex mutex_;
  bool provided_ = false;
};

c10::Storage storage_of(std::shared_ptr<Content> content, c10::Device device = c10::kCPU);
// The content behind a storage; null if that is ordinary memory.
Content* content_of(const c10::Storage& storage);
Content* content_of(const at::TensorBase& tensor);

void let_go_content(const at::TensorBase& tensor);

// Tells one content from another, not against an adversary.
using ContentHash = std::array<std::uint64_t, 2>;
// Of the values, whatever the strides.
ContentHash content_hash(const at::TensorBase& tensor);

// Of all tensors; those that are tied are one piece of memory.
std::int64_t bytes_of(const State& state);

// The version counter, which every in-place write advances. 0 for tensors that do not keep one.
std::uint32_t version_of(const at::TensorBase& tensor);

}  // namespace refx
