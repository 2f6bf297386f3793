// SPDX-License-Identifier: Apache-2.0

#include "ir/content.h"

#include <ATen/core/Tensor.h>
#include <xxhash.h>

#include <unordered_set>

namespace refx {

namespace {

using Holder = std::shared_ptr<Content>;

void release(void* holder) { delete static_cast<Holder*>(holder); }

}  // namespace

void Content::require() {
  const std::lock_guard lock(mutex_);
  if (provided_) return;
  provide();
  provided_ = true;
}

c10::Storage storage_of(std::shared_ptr<Content> content, c10::Device device) {
  void* data = content->data();
  const std::size_t size = content->size();
  at::DataPtr pointer(data, new Holder(std::move(content)), &release, device);
  return c10::Storage(c10::Storage::use_byte_size_t(), size, std::move(pointer));
}

Content* content_of(const c10::Storage& storage) {
  // A detached one throws where its memory is asked for.
  const at::DataPtr& pointer = storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  if (pointer.get_deleter() != &release) return nullptr;
  return static_cast<Holder*>(pointer.get_context())->get();
}

Content* content_of(const at::TensorBase& tensor) {
  return tensor.defined() && tensor.has_storage() ? content_of(tensor.storage()) : nullptr;
}

void require_content(const at::TensorBase& tensor) {
  if (Content* content = content_of(tensor)) content->require();
}

void let_go_content(const at::TensorBase& tensor) {
  if (Content* content = content_of(tensor)) content->let_go();
}

ContentHash content_hash(const at::TensorBase& tensor) {
  require_content(tensor);
  const at::Tensor dense = at::Tensor(tensor).detach().cpu().contiguous();
  const XXH128_hash_t hash = XXH3_128bits(dense.const_data_ptr(), dense.nbytes());
  return {hash.low64, hash.high64};
}

std::int64_t bytes_of(const State& state) {
  std::unordered_set<const void*> storages;
  std::size_t bytes = 0;
  for (StateId id : state) {
    const at::TensorBase& tensor = state.tensor(id);
    if (!tensor.has_storage() || storages.insert(tensor.storage().unsafeGetStorageImpl()).second)
      bytes += tensor.nbytes();
  }
  return static_cast<std::int64_t>(bytes);
}

std::uint32_t version_of(const at::TensorBase& tensor) {
  return tensor.is_inference() ? 0 : static_cast<std::uint32_t>(tensor._version());
}

}  // namespace refx
