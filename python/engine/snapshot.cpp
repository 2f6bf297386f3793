// SPDX-License-Identifier: Apache-2.0

#include "engine/snapshot.h"

#include <cstring>
#include <string_view>

#include "engine/mirror.h"

namespace refx::fx {

namespace {

// A hash of 64 evenly spaced words of the tensor's memory; none if the memory cannot be read
// directly. It detects an update of all elements, as every optimizer makes. A write to a few
// elements may be missed: this runs on every read, and hashing all weights each time would be too
// slow.
std::optional<std::uint64_t> sample_of(const at::TensorBase& tensor, const void* storage) {
  constexpr std::size_t kWidth = 8, kPlaces = 64;
  if (!storage || !tensor.is_cpu() || !tensor.is_non_overlapping_and_dense() ||
      tensor.key_set().has(c10::DispatchKey::Python))
    return std::nullopt;
  const char* data =
      static_cast<const char*>(storage) + tensor.storage_offset() * tensor.itemsize();
  const std::size_t size = tensor.nbytes();
  if (size <= kWidth * kPlaces) return std::hash<std::string_view>{}({data, size});
  char places[kWidth * kPlaces];
  for (std::size_t i = 0; i < kPlaces; ++i)
    std::memcpy(places + kWidth * i, data + (size - kWidth) * i / (kPlaces - 1), kWidth);
  return std::hash<std::string_view>{}({places, sizeof places});
}

}  // namespace

TensorSnapshot TensorSnapshot::of(const at::TensorBase& tensor, bool sampled) {
  TensorSnapshot snapshot;
  snapshot.dtype = tensor.scalar_type();
  snapshot.device = tensor.device();
  if (tensor.has_storage()) snapshot.data = tensor.storage().unsafeGetStorageImpl()->data();
  if (sampled) snapshot.sample = sample_of(tensor, snapshot.data);
  return snapshot;
}

void Mirror::take_snapshots() {
  snapshots_.resize(model_.state().id_limit());
  for (StateId id : model_.state()) {
    TensorSnapshot& last = snapshots_[id.value];
    last = TensorSnapshot::of(model_.state().tensor(id), last.sample.has_value());
  }
}

void Mirror::take_snapshots(const ChangedObjects& changed) {
  snapshots_.resize(model_.state().id_limit());
  for (const auto& [id, name] : changed.states)
    if (const StateEntry* entry = model_.state().find(id))
      snapshots_[id.value] = TensorSnapshot::of(entry->tensor, true);
}

// Whether the contents of the tensor differ from the last read. False for a tensor that a later
// step replaced, because nothing is known about it.
bool Mirror::has_other_contents(StateId id, const StateEntry& entry) const {
  const StateEntry* current = model_.state().find(id);
  if (!current || !current->tensor.is_same(entry.tensor)) return false;
  if (id.value >= snapshots_.size() || !snapshots_[id.value].sample) return false;
  return TensorSnapshot::of(entry.tensor, true).sample != snapshots_[id.value].sample;
}

}  // namespace refx::fx
