// SPDX-License-Identifier: Apache-2.0

#include "refx/state.h"

namespace refx {

namespace {

const void* storage_of(const StateEntry& entry) {
  const c10::TensorImpl* tensor = entry.tensor.unsafeGetTensorImpl();
  return entry.tensor.defined() && tensor->has_storage()
             ? tensor->unsafe_storage().unsafeGetStorageImpl()
             : nullptr;
}

}  // namespace

std::uint32_t State::any_with(const void* storage) const {
  return sharers_.any(spread(storage), [&](std::uint32_t id) { return storages_[id] == storage; });
}

std::size_t State::storage_sharers(StateId id) const {
  (*this)[id];
  if (!storages_[id.value] || sharers_.is_alone(id.value)) return 1;
  return sharers_.count(any_with(storages_[id.value]));
}

State::Ptr State::exchange(StateId id, Ptr value) {
  const void* storage = value ? storage_of(*value) : nullptr;
  if (id.value >= storages_.size()) storages_.resize(id.value + 1);
  const void*& known = storages_[id.value];
  if (storage != known) {
    sharers_.reserve(id.value);
    if (known) sharers_.leave(spread(known), id.value, [&] { return any_with(known); });
    if (storage) sharers_.enter(spread(storage), id.value, any_with(storage));
    known = storage;
  }
  return Table::exchange(id, std::move(value));
}

}  // namespace refx
