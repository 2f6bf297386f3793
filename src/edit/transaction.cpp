// SPDX-License-Identifier: Apache-2.0

#include "edit/transaction.h"

#include <algorithm>
#include <utility>

#include "edit/access.h"
#include "refx/error.h"

namespace refx {

thread_local long fail_after_writes = -1;

namespace {

// With fewer edits, a scan of the journal is faster than an index. Most steps have fewer than ten.
constexpr std::size_t kIndexFrom = 32;

template <class T>
constexpr std::size_t kKind = std::is_same_v<T, Node>         ? 0
                              : std::is_same_v<T, StateEntry> ? 1
                                                              : 2;

void maybe_fail() {
  if (fail_after_writes >= 0 && fail_after_writes-- == 0)
    throw std::runtime_error("injected failure");
}

}  // namespace

Transaction::~Transaction() { rollback(); }

template <class T>
Id<T> Transaction::insert(Id<T> where, T value) {
  const auto& table = ModelAccess::table<T>(model_);
  std::shared_ptr<const T> pointer = std::make_shared<T>(std::move(value));
  // Nodes refer to state entries and modules by name. So a new object with the name of an erased
  // one is the same object again, with another value: it takes the slot, and the edit has a
  // `before`.
  if (const Id<T> named = table.named(pointer->name)) {
    if (table.contains(named)) throw Error("the name '" + pointer->name + "' is taken");
    write(named, pointer);
    return named;
  }
  maybe_fail();
  // Until the journal has the edit, rollback() does not know of the slot.
  const Id<T> id = ModelAccess::insert_slot(model_, where);
  try {
    log(Change<T>{id, nullptr, pointer}, true);
  } catch (...) {
    ModelAccess::remove_slot(model_, id);
    throw;
  }
  ModelAccess::reserve_name(model_, id, pointer->name);
  ModelAccess::exchange(model_, id, std::move(pointer));
  ModelAccess::touch(model_);
  return id;
}
template NodeId Transaction::insert(NodeId, Node);
template StateId Transaction::insert(StateId, StateEntry);
template ModuleId Transaction::insert(ModuleId, Module);

template <class T>
void Transaction::write(Id<T> id, std::shared_ptr<const T> value) {
  maybe_fail();
  ModelAccess::touch(model_);
  Edit* earlier = logged(id);
  if (!earlier) {
    log(Change<T>{id, ModelAccess::table<T>(model_).pointer(id), value}, false);
    ModelAccess::exchange(model_, id, std::move(value));
    return;
  }
  auto& change = std::get<Change<T>>(*earlier);
  // Made and erased in the same step: the step has nothing to record. The edit becomes a gap
  // instead of being removed, since the index holds positions in the journal.
  if (!value && is_insertion(earlier)) {
    ModelAccess::exchange<T>(model_, id, nullptr);
    ModelAccess::release_name(model_, id, change.after->name);
    ModelAccess::remove_slot(model_, id);
    if (edits_.size() > kIndexFrom) index_[kKind<T>].set(id.value, IdPages::kNone);
    change = {};
    return;
  }
  change.after = value;
  ModelAccess::exchange(model_, id, std::move(value));
}
template void Transaction::write(NodeId, std::shared_ptr<const Node>);
template void Transaction::write(StateId, std::shared_ptr<const StateEntry>);
template void Transaction::write(ModuleId, std::shared_ptr<const Module>);

template <class T>
T* Transaction::own(Id<T> id) {
  Edit* edit = logged(id);
  if (!edit) return nullptr;
  const auto& after = std::get<Change<T>>(*edit).after;
  // The journal and the table hold one reference each. With a third one, somebody may still rely on
  // the value as it is.
  constexpr long kEditAndTable = 2;
  if (!after || after.use_count() != kEditAndTable) return nullptr;
  ModelAccess::touch(model_);
  return const_cast<T*>(after.get());
}
template Node* Transaction::own(NodeId);

void Transaction::reserve(std::size_t edits) {
  edits_.reserve(edits);
  inserted_.reserve(edits);
}

template <class T>
Edit* Transaction::logged(Id<T> id) {
  if (edits_.size() > kIndexFrom) {
    const std::uint32_t at = index_[kKind<T>].get(id.value);
    return at == IdPages::kNone ? nullptr : &edits_[at];
  }
  for (Edit& edit : edits_)
    if (auto* change = std::get_if<Change<T>>(&edit); change && change->id == id) return &edit;
  return nullptr;
}

// The edit is appended last. If memory runs out before, rollback() does not see it, and the model
// is unchanged.
void Transaction::log(Edit edit, bool inserted) {
  constexpr std::size_t kFewEdits = 8;
  const std::size_t at = edits_.size();
  if (at == 0) edits_.reserve(std::max(kFewEdits, edits_.capacity()));
  if (at == kIndexFrom)
    for (std::size_t i = 0; i < at; ++i) index(edits_[i], i);
  if (at >= kIndexFrom) index(edit, at);
  inserted_.resize(at);
  inserted_.push_back(inserted);
  edits_.push_back(std::move(edit));
}

void Transaction::index(const Edit& edit, std::size_t at) {
  std::visit(
      [&](const auto& change) {
        if (change.id) index_[edit.index()].set(change.id.value, static_cast<std::uint32_t>(at));
      },
      edit);
}

bool is_nothing(const Edit& edit) {
  return std::visit([](const auto& change) { return !change.id; }, edit);
}

bool Transaction::changed() const { return !std::all_of(edits_.begin(), edits_.end(), is_nothing); }

std::vector<Edit> Transaction::keep() {
  std::erase_if(edits_, is_nothing);
  index_ = {};
  inserted_.clear();
  return std::exchange(edits_, {});
}

void Transaction::keep(std::vector<Edit>& journal) {
  for (Edit& edit : edits_)
    if (!is_nothing(edit)) journal.push_back(std::move(edit));
  index_ = {};
  inserted_.clear();
  edits_.clear();
}

void Transaction::rollback() noexcept {
  for (auto it = edits_.rbegin(); it != edits_.rend(); ++it) {
    std::visit(
        [&](const auto& change) {
          if (change.id) ModelAccess::exchange(model_, change.id, change.before);
        },
        *it);
  }
  // Slots are removed in a second pass. In the first one, a node that used an inserted node may not
  // have been restored yet.
  for (const Edit& edit : edits_) {
    std::visit(
        [&](const auto& change) {
          if (!change.id || !is_insertion(&edit)) return;
          ModelAccess::release_name(model_, change.id, change.after->name);
          ModelAccess::remove_slot(model_, change.id);
        },
        edit);
  }
  if (!edits_.empty()) ModelAccess::touch(model_);
  edits_.clear();
  index_ = {};
  inserted_.clear();
}

}  // namespace refx
