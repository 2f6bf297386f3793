// SPDX-License-Identifier: Apache-2.0

#include "refx/graph.h"

#include <algorithm>

#include "refx/error.h"

namespace refx {

namespace {
constexpr std::size_t kIndexFrom = 16;  // below, a scan is faster than a hash

}  // namespace

UserSet::UserSet(const UserSet& other)
    : users_(other.users_),
      index_(other.index_ ? std::make_unique<NameIndex>(*other.index_) : nullptr) {}

UserSet& UserSet::operator=(UserSet other) noexcept {
  users_.swap(other.users_);
  index_.swap(other.index_);
  return *this;
}

std::size_t UserSet::position(NodeId user) const {
  if (index_) {
    const std::uint32_t at = index_->find(
        spread(user.value), [&](std::uint32_t place) { return users_[place].id == user; });
    return at == NameIndex::kNone ? users_.size() : at;
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
      index_->insert(spread(user.value), static_cast<std::uint32_t>(at));
    } else if (users_.size() > kIndexFrom) {
      auto index = std::make_unique<NameIndex>();
      for (std::uint32_t i = 0; i < users_.size(); ++i)
        index->insert(spread(users_[i].id.value), i);
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
  const auto place = static_cast<std::uint32_t>(at);
  const auto last = static_cast<std::uint32_t>(users_.size() - 1);
  if (index_) {
    index_->erase(spread(user.value), place);
    if (place != last) index_->replace(spread(users_[last].id.value), last, place);
  }
  users_[at] = users_.back();
  users_.pop_back();
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

std::vector<NodeId> Graph::in_order(std::vector<NodeId> ids) const {
  std::sort(ids.begin(), ids.end(), [&](NodeId a, NodeId b) { return precedes(a, b); });
  return ids;
}

std::vector<NodeId> Graph::users(NodeId id) const {
  std::vector<NodeId> ids;
  ids.reserve(num_users(id));
  for (const UserSet::User& user : users_[id.value]) ids.push_back(user.id);
  return in_order(std::move(ids));
}

namespace {

// The state entry or the module that the node is bound to by name.
const Name& bound_name(const Node& node) {
  return node.op == Opcode::call_module ? node.target : bound_state(node);
}

}  // namespace

std::uint32_t Graph::any_in(const Rings& rings, const NameKey& name) const {
  return rings.any(name.hash(),
                   [&](std::uint32_t id) { return name.is(bound_name(*find(NodeId(id)))); });
}

std::vector<NodeId> Graph::ring(const Rings& rings, const NameKey& name) const {
  std::vector<NodeId> ids;
  if (rings.empty()) return ids;
  const std::uint32_t any = any_in(rings, name);
  ids.reserve(rings.count(any));
  rings.for_each(any, [&](std::uint32_t id) { ids.emplace_back(id); });
  return in_order(std::move(ids));
}

std::size_t Graph::ring_size(const Rings& rings, const NameKey& name) const {
  return rings.empty() ? 0 : rings.count(any_in(rings, name));
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
  const Node* old = find(id);
  const Node* node = value.get();
  const bool same_uses = old && node && old->args == node->args && old->kwargs == node->kwargs;
  const bool same_ring =
      old && node && rings_of(*old) == rings_of(*node) && bound_name(*old) == bound_name(*node);
  // Whatever needs memory comes first.
  if (node && !same_ring)
    if (Rings* rings = rings_of(*node)) rings->reserve(id.value);
  if (node && !same_uses) add_uses(id, *node);
  if (old && !same_ring) leave_ring(id, *old);
  Ptr removed = Table::exchange(id, std::move(value));
  if (node && !same_ring) enter_ring(id, *node);
  if (removed && !same_uses) remove_uses(id, *removed);
  return removed;
}

// All or none of them.
void Graph::add_uses(NodeId user, const Node& node) {
  std::size_t added = 0;
  try {
    for_each_input(node, [&](NodeId input) {
      users_.at(input.value).add(user);
      ++added;
    });
  } catch (...) {
    remove_uses(user, node, added);
    throw;
  }
}

void Graph::remove_uses(NodeId user, const Node& node, std::size_t most) {
  for_each_input(node, [&](NodeId input) {
    if (most == 0) return;
    users_[input.value].remove(user);
    --most;
  });
}

Rings* Graph::rings_of(const Node& node) {
  if (node.op == Opcode::call_module) return &callers_;
  return bound_state(node).empty() ? nullptr : &readers_;
}

void Graph::enter_ring(NodeId id, const Node& node) {
  Rings* rings = rings_of(node);
  if (!rings) return;
  const Name& name = bound_name(node);
  rings->enter(name.hash(), id.value, any_in(*rings, name));
}

void Graph::leave_ring(NodeId id, const Node& node) {
  Rings* rings = rings_of(node);
  if (!rings) return;
  const Name& name = bound_name(node);
  rings->leave(name.hash(), id.value, [&] { return any_in(*rings, name); });
}

}  // namespace refx
