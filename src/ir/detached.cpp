// SPDX-License-Identifier: Apache-2.0

#include "ir/detached.h"

#include <fmt/format.h>

#include "refx/hint.h"

namespace refx {

void Detached::provide() {
  throw HintedError(fmt::format("the original of '{}' was detached from the model", name_),
                    Hint::base);
}

c10::Storage storage_of(const std::shared_ptr<Detached>& detached, c10::Device device) {
  c10::Storage storage = storage_of(std::shared_ptr<Content>(detached), device);
  storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
      fmt::format("the original of '{}' was detached from the model", detached->name()));
  return storage;
}

Detached* detached_in(const c10::Storage& storage) {
  return dynamic_cast<Detached*>(content_of(storage));
}

Detached* detached_in(const at::TensorBase& tensor) {
  return dynamic_cast<Detached*>(content_of(tensor));
}

}  // namespace refx
