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

std::size_t State::storage_sharers(StateId id) const {
  auto it = storages_.find(storage_of((*this)[id]));
  return it == storages_.end() ? 1 : it->second;
}

State::Ptr State::exchange(StateId id, Ptr value) {
  const StateEntry* added = value.get();
  Ptr removed = Table::exchange(id, std::move(value));
  if (added)
    if (const void* storage = storage_of(*added)) ++storages_[storage];
  if (removed)
    if (const void* storage = storage_of(*removed))
      if (auto it = storages_.find(storage); it != storages_.end() && --it->second == 0)
        storages_.erase(it);
  return removed;
}

}  // namespace refx
