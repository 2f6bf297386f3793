#include "edit/transaction.h"

#include <algorithm>
#include <utility>

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

void maybe_fail() {
  if (fail_after_writes >= 0 && fail_after_writes-- == 0)
    throw std::runtime_error("injected failure");
}

}  // namespace

template <class T>
std::uint64_t object_key(Id<T> id) {
  return kKindBits<T> | id.value;
}
template std::uint64_t object_key(NodeId);
template std::uint64_t object_key(StateId);
template std::uint64_t object_key(ModuleId);

std::uint64_t object_key(const Edit& edit) {
  return std::visit([](const auto& change) { return object_key(change.id); }, edit);
}

template <>
auto& Transaction::mutable_table<Node>() {
  return model_.graph_;
}
template <>
auto& Transaction::mutable_table<StateEntry>() {
  return model_.state_;
}
template <>
auto& Transaction::mutable_table<Module>() {
  return model_.modules_;
}

Transaction::~Transaction() { rollback(); }

template <class T>
Id<T> Transaction::insert(Id<T> where, T value) {
  maybe_fail();
  auto& table = mutable_table<T>();
  if (table.name_taken(value.name)) throw Error("the name '" + value.name + "' is taken");
  auto pointer = std::make_shared<const T>(std::move(value));
  const Id<T> id = table.insert_slot(where);
  inserted_.insert(object_key(id));
  log(Change<T>{id, nullptr, pointer});
  table.reserve_name(pointer->name, id);
  table.exchange(id, std::move(pointer));
  touch();
  return id;
}
template NodeId Transaction::insert(NodeId, Node);
template StateId Transaction::insert(StateId, StateEntry);
template ModuleId Transaction::insert(ModuleId, Module);

template <class T>
void Transaction::write(Id<T> id, std::shared_ptr<const T> value) {
  maybe_fail();
  auto& table = mutable_table<T>();
  touch();
  Edit* earlier = logged(object_key(id));
  if (!earlier) {
    log(Change<T>{id, table.pointer(id), value});
    table.exchange(id, std::move(value));
    return;
  }
  auto& change = std::get<Change<T>>(*earlier);
  if (!value && inserted_.erase(object_key(id))) {  // made and erased again: it never was
    table.exchange(id, nullptr);
    table.release_name(change.after->name, id);
    table.remove_slot(id);
    index_.erase(object_key(id));
    change = {};
    return;
  }
  change.after = value;
  table.exchange(id, std::move(value));
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

void Transaction::log(Edit edit) {
  edits_.push_back(std::move(edit));
  if (edits_.size() <= kIndexFrom) return;
  const std::size_t first = index_.empty() ? 0 : edits_.size() - 1;
  for (std::size_t i = first; i < edits_.size(); ++i) index_[object_key(edits_[i])] = i;
}

namespace {

bool is_nothing(const Edit& edit) {
  return std::visit([](const auto& change) { return !change.id; }, edit);
}

}  // namespace

bool Transaction::changed() const {
  return !std::all_of(edits_.begin(), edits_.end(), is_nothing);
}

std::vector<Edit> Transaction::keep() {
  index_.clear();
  inserted_.clear();
  std::erase_if(edits_, is_nothing);
  return std::exchange(edits_, {});
}

void Transaction::rollback() noexcept {
  for (auto it = edits_.rbegin(); it != edits_.rend(); ++it) {
    std::visit(
        [&]<class T>(const Change<T>& change) {
          if (change.id) mutable_table<T>().exchange(change.id, change.before);
        },
        *it);
  }
  // Only now: a user may have been removed after what it used.
  for (const Edit& edit : edits_) {
    std::visit(
        [&]<class T>(const Change<T>& change) {
          if (!inserted_.count(object_key(change.id))) return;
          auto& table = mutable_table<T>();
          table.release_name(change.after->name, change.id);
          table.remove_slot(change.id);
        },
        edit);
  }
  if (!edits_.empty()) touch();
  edits_.clear();
  index_.clear();
  inserted_.clear();
}

std::shared_ptr<const Step> Transaction::add_step(std::shared_ptr<Step> step) {
  History& history = model_.history_;
  if (!step->id) step->id = StepId(history.next_id_++);
  history.add(step);
  return step;
}

std::shared_ptr<const Step> Transaction::remove_step(StepId id) {
  return model_.history_.remove(id);
}

namespace {

template <class F>
void for_each_made(const Step& step, F&& f) {
  for (const Edit& edit : step.edits)
    std::visit(
        [&](const auto& change) {
          if (!change.before && change.after) f(change);
        },
        edit);
}

}  // namespace

void Transaction::release_names(const Step& step) {
  for_each_made(step, [&]<class T>(const Change<T>& change) {
    mutable_table<T>().release_name(change.after->name, change.id);
  });
}

void Transaction::reserve_names(const Step& step) {
  for_each_made(step, [&]<class T>(const Change<T>& change) {
    mutable_table<T>().reserve_name(change.after->name, change.id);
  });
}

void Transaction::purge(const Step& step) {
  release_names(step);
  for_each_made(step, [&]<class T>(const Change<T>& change) {
    mutable_table<T>().remove_slot(change.id);
  });
}

void Transaction::forget() {
  for (const auto& step : reversed()) purge(*step);
  reversed().clear();
  // What live steps erased, and what they made that a later one erased.
  for (const Step& step : model_.history_) {
    for (const Edit& edit : step.edits) {
      std::visit(
          [&]<class T>(const Change<T>& change) {
            auto& table = mutable_table<T>();
            if (change.after || !change.before || table.contains(change.id)) return;
            table.release_name(change.before->name, change.id);
            table.remove_slot(change.id);
          },
          edit);
    }
  }
  const std::uint32_t next = model_.history_.next_id_;
  model_.history_ = History();
  model_.history_.next_id_ = next;
  touch();
}

}  // namespace refx
