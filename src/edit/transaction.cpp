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
void Transaction::reserve(std::size_t size) {
  mutable_table<T>().reserve(size);
}
template void Transaction::reserve<Node>(std::size_t);
template void Transaction::reserve<StateEntry>(std::size_t);
template void Transaction::reserve<Module>(std::size_t);

template <class T>
Id<T> Transaction::insert(Id<T> where, T value) {
  auto& table = mutable_table<T>();
  auto pointer = std::make_shared<const T>(std::move(value));
  // A state entry or a module is its name: what was erased under it returns, with a new value.
  if (const Id<T> named = table.named(pointer->name)) {
    if (table.contains(named)) throw Error("the name '" + pointer->name + "' is taken");
    write(named, pointer);
    return named;
  }
  maybe_fail();
  const Id<T> id = table.insert_slot(where);
  log(Change<T>{id, nullptr, pointer}, true);
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
    log(Change<T>{id, table.pointer(id), value}, false);
    table.exchange(id, std::move(value));
    return;
  }
  auto& change = std::get<Change<T>>(*earlier);
  if (!value && is_insertion(earlier)) {  // made and erased again: it never was
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

void Transaction::log(Edit edit, bool inserted) {
  edits_.push_back(std::move(edit));
  inserted_.push_back(inserted);
  if (edits_.size() <= kIndexFrom) return;
  const std::size_t first = index_.empty() ? 0 : edits_.size() - 1;
  for (std::size_t i = first; i < edits_.size(); ++i) index_[object_key(edits_[i])] = i;
}

namespace {

bool is_nothing(const Edit& edit) {
  return std::visit([](const auto& change) { return !change.id; }, edit);
}

}  // namespace

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
        [&]<class T>(const Change<T>& change) {
          if (change.id) mutable_table<T>().exchange(change.id, change.before);
        },
        *it);
  }
  // Only now: a user may have been removed after what it used.
  for (const Edit& edit : edits_) {
    std::visit(
        [&]<class T>(const Change<T>& change) {
          if (!change.id || !is_insertion(&edit)) return;
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

template <class T>
Id<T> Transaction::insert_place(Id<T> where) {
  return mutable_table<T>().insert_slot(where);
}
template NodeId Transaction::insert_place(NodeId);
template StateId Transaction::insert_place(StateId);
template ModuleId Transaction::insert_place(ModuleId);

void Transaction::restore_step(std::shared_ptr<Step> step) {
  for (Edit& edit : step->edits)
    std::visit(
        [&]<class T>(Change<T>& change) {
          auto& table = mutable_table<T>();
          change.before = table.pointer(change.id);
          if (change.after && !change.before && !table.find_erased(change.after->name))
            table.reserve_name(change.after->name, change.id);
          table.exchange(change.id, change.after);
        },
        edit);
  touch();
  model_.history_.add(std::move(step));
}

template <class T>
void Transaction::restore(Id<T> id, std::shared_ptr<const T> value) {
  auto& table = mutable_table<T>();
  table.reserve_name(value->name, id);
  table.exchange(id, std::move(value));
  touch();
}
template void Transaction::restore(NodeId, std::shared_ptr<const Node>);
template void Transaction::restore(StateId, std::shared_ptr<const StateEntry>);
template void Transaction::restore(ModuleId, std::shared_ptr<const Module>);

template <class T>
void Transaction::restore_name(Id<T> id, const std::string& name) {
  mutable_table<T>().reserve_name(name, id);
}
template void Transaction::restore_name(NodeId, const std::string&);
template void Transaction::restore_name(StateId, const std::string&);
template void Transaction::restore_name(ModuleId, const std::string&);

std::shared_ptr<const Step> Transaction::remove_step(StepId id) {
  return model_.history_.remove(id);
}

// What a reversed step made and nobody else needs. (What it had brought back, after an earlier step
// erased it, is that step's, or is in place again.)
template <class F>
void Transaction::for_each_left(const Step& step, F&& f) {
  for (const Edit& edit : step.edits)
    std::visit(
        [&]<class T>(const Change<T>& change) {
          auto& table = mutable_table<T>();
          const bool made = !change.before && change.after;
          if (made && !table.contains(change.id) && !model_.history_.writes(edit))
            f(table, change.id, change.after->name);
        },
        edit);
}

void Transaction::release_names(const Step& step) {
  for_each_left(step, [](auto& table, auto id, auto& name) { table.release_name(name, id); });
}

void Transaction::reserve_names(const Step& step) {
  for_each_left(step, [](auto& table, auto id, auto& name) { table.reserve_name(name, id); });
}

void Transaction::purge(const Step& step) {
  release_names(step);
  for_each_left(step, [](auto& table, auto id, auto&) { table.remove_slot(id); });
}

void Transaction::forget() {
  std::vector<std::shared_ptr<const Step>> steps;
  for (StepId id : model_.history_.ids()) steps.push_back(remove_step(id));
  for (const auto& step : reversed()) purge(*step);
  reversed().clear();
  // Whatever is erased now was only kept for them.
  for (const auto& step : steps)
    for (const Edit& edit : step->edits)
      std::visit(
          [&]<class T>(const Change<T>& change) {
            auto& table = mutable_table<T>();
            const auto& value = change.before ? change.before : change.after;
            if (!value || table.find_erased(value->name) != change.id) return;
            table.release_name(value->name, change.id);
            table.remove_slot(change.id);
          },
          edit);
  touch();
}

}  // namespace refx
