// SPDX-License-Identifier: Apache-2.0

#include "refx/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "refx/error.h"
#include "refx/module.h"
#include "refx/node.h"
#include "refx/state.h"

namespace refx {

namespace {

template <class T>
constexpr const char* kKind = "object";
template <>
constexpr const char* kKind<Node> = "node";
template <>
constexpr const char* kKind<StateEntry> = "state entry";
template <>
constexpr const char* kKind<Module> = "module";

constexpr std::uint64_t kGap = 1ull << 32;

}  // namespace

template <class T>
const T& Table<T>::operator[](Id<T> id) const {
  if (const T* value = find(id)) return *value;
  if (!id) throw Error(std::string("no ") + kKind<T> + " given");
  throw Error(std::string("this model has no live ") + kKind<T> + " with id " +
              std::to_string(id.value));
}

template <class T>
Id<T> Table<T>::named(const NameKey& name) const {
  return Id<T>(
      names_.find(name.hash(), [&](std::uint32_t id) { return name.is(slots_[id].name); }));
}

template <class T>
Id<T> Table<T>::find(const NameKey& name) const {
  const Id<T> id = named(name);
  return id && contains(id) ? id : Id<T>{};
}

template <class T>
Id<T> Table<T>::first() const {
  return head_ && !slots_[head_.value].value ? next(head_) : head_;
}

template <class T>
Id<T> Table<T>::last() const {
  return tail_ && !slots_[tail_.value].value ? previous(tail_) : tail_;
}

template <class T>
Id<T> Table<T>::next(Id<T> id) const {
  do id = slots_[id.value].next;
  while (id && !slots_[id.value].value);
  return id;
}

template <class T>
Id<T> Table<T>::previous(Id<T> id) const {
  do id = slots_[id.value].prev;
  while (id && !slots_[id.value].value);
  return id;
}

template <class T>
bool Table<T>::precedes(Id<T> a, Id<T> b) const {
  return slots_[a.value].label < slots_[b.value].label;
}

template <class T>
std::vector<Id<T>> Table<T>::slots() const {
  std::vector<Id<T>> ids;
  for (Id<T> id = head_; id; id = slots_[id.value].next) ids.push_back(id);
  return ids;
}

template <class T>
Id<T> Table<T>::find_erased(const NameKey& name) const {
  const Id<T> id = named(name);
  return id && !contains(id) ? id : Id<T>{};
}

template <class T>
Name Table<T>::fresh_name(const Name& base) const {
  if (!name_taken(base)) return base;
  std::uint64_t& taken = numbered_[base];
  fmt::memory_buffer name;
  for (;; ++taken) {
    name.clear();
    fmt::format_to(std::back_inserter(name), "{}_{}", base, taken + 1);
    const std::string_view text(name.data(), name.size());
    if (!name_taken(text)) return text;
  }
}

template <class T>
void Table<T>::reserve(std::size_t size) {
  slots_.reserve(size);
  names_.reserve(size);
}

template <class T>
Id<T> Table<T>::insert_slot(Id<T> where) {
  if (slots_.size() >= Id<T>::kNone) throw Error(std::string("too many ") + kKind<T> + "s");
  const Id<T> id(static_cast<std::uint32_t>(slots_.size()));
  slots_.emplace_back();
  const Id<T> prev = where ? slots_[where.value].prev : tail_;
  Slot& slot = slots_.back();
  slot.prev = prev;
  slot.next = where;
  (prev ? slots_[prev.value].next : head_) = id;
  (where ? slots_[where.value].prev : tail_) = id;
  const std::uint64_t low = prev ? slots_[prev.value].label : 0;
  const std::uint64_t high = where ? slots_[where.value].label : low + 2 * kGap;
  slot.label = low + (high - low) / 2;
  if (slot.label == low) make_room(id);
  return id;
}

// Order maintenance after Bender et al.: the smallest aligned range of labels around the slot that
// is sparse enough gets its labels spread evenly.
template <class T>
void Table<T>::make_room(Id<T> at) {
  Id<T> left = at, right = at;
  std::size_t count = 1;
  double capacity = 1;
  for (unsigned bits = 1; bits < 64; ++bits) {
    const std::uint64_t size = 1ull << bits;
    const std::uint64_t low = slots_[at.value].label & ~(size - 1);
    while (slots_[left.value].prev && slots_[slots_[left.value].prev.value].label >= low)
      left = slots_[left.value].prev, ++count;
    while (slots_[right.value].next && slots_[slots_[right.value].next.value].label - low < size)
      right = slots_[right.value].next, ++count;
    capacity *= 1.4;
    if (static_cast<double>(count) > capacity || count * 2 > size) continue;
    const std::uint64_t step = size / (count + 1);
    if (step == 0) continue;
    std::uint64_t label = low;
    for (Id<T> id = left;; id = slots_[id.value].next) {
      slots_[id.value].label = label += step;
      if (id == right) return;
    }
  }
  REFX_CHECK(false, "the order of a table ran out of labels");
}

template <class T>
void Table<T>::remove_slot(Id<T> id) {
  Slot& slot = slots_[id.value];
  REFX_CHECK(!slot.value, "a live slot is removed");
  if (!slot.prev && head_ != id) return;  // it has no place any more
  (slot.prev ? slots_[slot.prev.value].next : head_) = slot.next;
  (slot.next ? slots_[slot.next.value].prev : tail_) = slot.prev;
  slot.prev = slot.next = {};
}

template <class T>
typename Table<T>::Ptr Table<T>::exchange(Id<T> id, Ptr value) {
  Slot& slot = slots_[id.value];
  if (value && !slot.value) ++live_;
  if (!value && slot.value) --live_;
  slot.value.swap(value);
  return value;
}

template <class T>
void Table<T>::reserve_name(const Name& name, Id<T> id) {
  if (const Id<T> owner = named(name); owner == id)
    return;
  else if (owner)
    throw Error(std::string(kKind<T>) + " name '" + name + "' is taken");
  Slot& slot = slots_[id.value];
  if (!slot.name.empty() && slot.name != name)
    throw Error(std::string(kKind<T>) + " '" + slot.name + "' gets another name, '" + name + "'");
  names_.insert(name.hash(), id.value);
  slot.name = name;
}

template <class T>
void Table<T>::release_name(const Name& name, Id<T> id) {
  if (named(name) != id) return;
  names_.erase(name.hash(), id.value);
  const std::string_view text = name;
  const auto underscore = text.rfind('_');
  if (underscore == text.npos) return;
  std::uint64_t number = 0;
  std::from_chars(text.data() + underscore + 1, text.data() + text.size(), number);
  if (auto known = numbered_.find(text.substr(0, underscore));
      number > 0 && known != numbered_.end())
    known->second = std::min(known->second, number - 1);
}

template class Table<Node>;
template class Table<StateEntry>;
template class Table<Module>;

}  // namespace refx
