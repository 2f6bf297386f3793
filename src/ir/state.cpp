#include "refx/state.h"

namespace refx {

namespace {

const void* storage_of(const StateEntry& entry) {
  const c10::TensorImpl* tensor = entry.tensor.unsafeGetTensorImpl();
  return entry.tensor.defined() && tensor->has_storage()
             ? tensor->unsafe_storage().unsafeGetStorageImpl()
             : nullptr;
}

std::size_t hash_of(const void* storage) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // the low bits of addresses are equal
  return (reinterpret_cast<std::uintptr_t>(storage) * kGolden) >> 32;
}

}  // namespace

std::uint32_t State::any_with(const void* storage) const {
  return sharers_.any(hash_of(storage), [&](std::uint32_t id) { return storages_[id] == storage; });
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
    if (known) {
      const bool alone = sharers_.is_alone(id.value);
      sharers_.leave(hash_of(known), id.value, alone ? id.value : any_with(known));
    }
    if (storage) sharers_.enter(hash_of(storage), id.value, any_with(storage));
    known = storage;
  }
  return Table::exchange(id, std::move(value));
}

}  // namespace refx
