#include "ir/content.h"

#include <ATen/core/Tensor.h>
#include <xxhash.h>

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

c10::Storage storage_of(std::shared_ptr<Content> content) {
  void* data = content->data();
  const std::size_t size = content->size();
  at::DataPtr pointer(data, new Holder(std::move(content)), &release, c10::kCPU);
  return c10::Storage(c10::Storage::use_byte_size_t(), size, std::move(pointer));
}

Content* content_of(const at::TensorBase& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  const at::DataPtr& pointer = tensor.storage().data_ptr();
  if (pointer.get_deleter() != &release) return nullptr;
  return static_cast<Holder*>(pointer.get_context())->get();
}

void require_content(const at::TensorBase& tensor) {
  if (Content* content = content_of(tensor)) content->require();
}

void let_go_content(const at::TensorBase& tensor) {
  if (Content* content = content_of(tensor)) content->let_go();
}

std::array<std::uint64_t, 2> content_hash(const at::TensorBase& tensor) {
  require_content(tensor);
  const at::Tensor dense = at::Tensor(tensor).detach().cpu().contiguous();
  const XXH128_hash_t hash = XXH3_128bits(dense.const_data_ptr(), dense.nbytes());
  return {hash.low64, hash.high64};
}

std::uint32_t version_of(const at::TensorBase& tensor) {
  return tensor.is_inference() ? 0 : static_cast<std::uint32_t>(tensor._version());
}

}  // namespace refx
