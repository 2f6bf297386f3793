#include "ir/content.h"

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

}  // namespace refx
