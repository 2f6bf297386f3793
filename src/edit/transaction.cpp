#include "edit/transaction.h"

#include <algorithm>
#include <utility>

#include "edit/access.h"
#include "refx/error.h"

namespace refx {

thread_local long fail_after_writes = -1;

namespace {

constexpr std::size_t kIndexFrom = 32;

template <class T>
constexpr std::uint64_t kKindBits = 0;
template <>
constexpr std::uint64_t kKindBits<StateEntry> = 1ull << 32;
template <>
constexpr std::uint64_t kKindBits<Module> = 2ull << 32;

// One number for any object: its kind and its id.
template <class T>
std::uint64_t object_key(Id<T> id) {
  return kKindBits<T> | id.value;
}
std::uint64_t object_key(const Edit& edit) {
  return std::visit([](const auto& change) { return object_key(change.id); }, edit);
}

void maybe_fail() {
  if (fail_after_writes >= 0 && fail_after_writes-- == 0)
    throw std::runtime_error("injected failure");
}

}  // namespace

Transaction::~Transaction() { rollback(); }

template <class T>
Id<T> Transaction::insert(Id<T> where, T value) {
  const auto& table = ModelAccess::table<T>(model_);
  auto pointer = std::make_shared<const T>(std::move(value));
  // A state entry or a module is its name: what was erased under it returns, with a new value.
  if (const Id<T> named = table.named(pointer->name)) {
    if (table.contains(named)) throw Error("the name '" + pointer->name + "' is taken");
    write(named, pointer);
    return named;
  }
  maybe_fail();
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
  Edit* earlier = logged(object_key(id));
  if (!earlier) {
    log(Change<T>{id, ModelAccess::table<T>(model_).pointer(id), value}, false);
    ModelAccess::exchange(model_, id, std::move(value));
    return;
  }
  auto& change = std::get<Change<T>>(*earlier);
  if (!value && is_insertion(earlier)) {  // made and erased again: it never was
    ModelAccess::exchange<T>(model_, id, nullptr);
    ModelAccess::release_name(model_, id, change.after->name);
    ModelAccess::remove_slot(model_, id);
    index_.erase(object_key(id));
    change = {};
    return;
  }
  change.after = value;
  ModelAccess::exchange(model_, id, std::move(value));
}
template void Transaction::write(NodeId, std::shared_ptr<const Node>);
template void Transaction::write(StateId, std::shared_ptr<const StateEntry>);
template void Transaction::write(ModuleId, std::shared_ptr<const Module>);

Edit* Transaction::logged(std::uint64_t object) {
  if (edits_.size() > kIndexFrom) {
    auto it = index_.find(object);
    return it == index_.end() ? nullptr : &edits_[it->second];
  }
  for (Edit& edit : edits_)
    if (object_key(edit) == object) return &edit;
  return nullptr;
}

// If there is no memory for it, rollback() does not see the edit.
void Transaction::log(Edit edit, bool inserted) {
  const std::size_t at = edits_.size();
  if (at >= kIndexFrom) {
    for (std::size_t i = index_.empty() ? 0 : at; i < at; ++i) index_[object_key(edits_[i])] = i;
    index_[object_key(edit)] = at;
  }
  inserted_.resize(at);
  inserted_.push_back(inserted);
  edits_.push_back(std::move(edit));
}

bool is_nothing(const Edit& edit) {
  return std::visit([](const auto& change) { return !change.id; }, edit);
}

bool Transaction::changed() const { return !std::all_of(edits_.begin(), edits_.end(), is_nothing); }

std::vector<Edit> Transaction::keep() {
  index_.clear();
  inserted_.clear();
  std::erase_if(edits_, is_nothing);
  return std::exchange(edits_, {});
}

void Transaction::rollback() noexcept {
  for (auto it = edits_.rbegin(); it != edits_.rend(); ++it) {
    std::visit(
        [&](const auto& change) {
          if (change.id) ModelAccess::exchange(model_, change.id, change.before);
        },
        *it);
  }
  // Only now: a user may have been removed after what it used.
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
  index_.clear();
  inserted_.clear();
}

}  // namespace refx
