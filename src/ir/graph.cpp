#include "refx/graph.h"

#include <algorithm>

#include "refx/error.h"

namespace refx {

namespace {
constexpr std::size_t kIndexFrom = 16;  // below, a scan is faster than a hash
}

UserSet::UserSet(const UserSet& other)
    : users_(other.users_),
      index_(other.index_ ? std::make_unique<Index>(*other.index_) : nullptr) {}

UserSet& UserSet::operator=(UserSet other) noexcept {
  users_.swap(other.users_);
  index_.swap(other.index_);
  return *this;
}

std::size_t UserSet::position(NodeId user) const {
  if (index_) {
    auto it = index_->find(user);
    return it == index_->end() ? users_.size() : it->second;
  }
  return std::find_if(users_.begin(), users_.end(), [&](const User& u) { return u.id == user; }) -
         users_.begin();
}

void UserSet::add(NodeId user) {
  const std::size_t at = position(user);
  if (at < users_.size()) {
    ++users_[at].references;
    return;
  }
  users_.push_back({user, 1});
  try {
    if (index_) {
      index_->emplace(user, at);
    } else if (users_.size() > kIndexFrom) {
      auto index = std::make_unique<Index>();
      for (std::uint32_t i = 0; i < users_.size(); ++i) index->emplace(users_[i].id, i);
      index_ = std::move(index);
    }
  } catch (const std::bad_alloc&) {  // without it, everything is as right and slower
    index_.reset();
  }
}

void UserSet::remove(NodeId user) {
  const std::size_t at = position(user);
  REFX_CHECK(at < users_.size(), "a use that was never counted is removed");
  if (--users_[at].references > 0) return;
  users_[at] = users_.back();
  users_.pop_back();
  if (!index_) return;
  index_->erase(user);
  if (at < users_.size()) (*index_)[users_[at].id] = static_cast<std::uint32_t>(at);
  if (users_.empty()) index_.reset();
}

std::size_t Graph::num_uses(NodeId id) const {
  std::size_t uses = 0;
  for (const UserSet::User& user : users_.at(id.value)) uses += user.references;
  return uses;
}

NodeId Graph::only_user(NodeId id) const {
  const UserSet& users = users_.at(id.value);
  return users.size() == 1 ? users.begin()->id : NodeId{};
}

std::vector<NodeId> Graph::ordered(const UserSet& users) const {
  std::vector<NodeId> ids;
  ids.reserve(users.size());
  for (const UserSet::User& user : users) ids.push_back(user.id);
  std::sort(ids.begin(), ids.end(), [&](NodeId a, NodeId b) { return precedes(a, b); });
  return ids;
}

std::vector<NodeId> Graph::of_name(const ByName& map, std::string_view name) const {
  auto it = map.find(name);
  return it == map.end() ? std::vector<NodeId>{} : ordered(it->second);
}

std::size_t Graph::num_readers(std::string_view state) const {
  auto it = readers_.find(state);
  return it == readers_.end() ? 0 : it->second.size();
}

std::size_t Graph::num_callers(std::string_view module) const {
  auto it = callers_.find(module);
  return it == callers_.end() ? 0 : it->second.size();
}

NodeId Graph::output() const {
  const NodeId id = last();
  if (!id || (*this)[id].op != Opcode::output)
    throw Error("the graph has no output node at its end");
  return id;
}

Id<Node> Graph::insert_slot(NodeId where) {
  users_.emplace_back();
  try {
    return Table::insert_slot(where);
  } catch (...) {
    users_.pop_back();
    throw;
  }
}

Graph::Ptr Graph::exchange(NodeId id, Ptr value) {
  if (value) add_references(id, *value);
  Ptr removed = Table::exchange(id, std::move(value));
  if (removed) remove_references(id, *removed);
  return removed;
}

// All or none of them.
void Graph::add_references(NodeId user, const Node& node) {
  std::size_t added = 0;
  try {
    for_each_user_set(node, [&](UserSet& users) {
      users.add(user);
      ++added;
    });
  } catch (...) {
    remove_references(user, node, added);
    throw;
  }
}

void Graph::remove_references(NodeId user, const Node& node, std::size_t most) {
  for_each_user_set(node, [&](UserSet& users) {
    if (most > 0) users.remove(user);
    if (most > 0) --most;
  });
}

template <class F>
void Graph::for_each_user_set(const Node& node, F&& f) {
  for_each_input(node, [&](NodeId input) { f(users_.at(input.value)); });
  auto by_name = [&](ByName& map, std::string_view name) {
    auto it = map.find(name);
    if (it == map.end()) it = map.emplace(name, UserSet{}).first;
    f(it->second);
    if (it->second.size() == 0) map.erase(it);
  };
  if (auto state = bound_state(node); !state.empty()) by_name(readers_, state);
  if (node.op == Opcode::call_module) by_name(callers_, node.target);
}

}  // namespace refx
