// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/SmallVector.h>

#include <vector>

#include "refx/export.h"
#include "refx/node.h"
#include "refx/rings.h"
#include "refx/table.h"

namespace refx {

// The nodes that use one value, without duplicates. Small sets are scanned, large ones are indexed.
class REFX_API UserSet {
 public:
  struct User {
    NodeId id;
    std::uint32_t references;
  };

  UserSet() = default;
  UserSet(const UserSet& other);
  UserSet(UserSet&&) noexcept = default;
  UserSet& operator=(UserSet other) noexcept;

  void add(NodeId user);     // adds one reference by `user`
  void remove(NodeId user);  // removes one
  std::size_t size() const { return users_.size(); }
  auto begin() const { return users_.begin(); }
  auto end() const { return users_.end(); }

 private:
  std::size_t position(NodeId user) const;

  c10::SmallVector<User, 2> users_;  // most values have one or two users
  std::unique_ptr<NameIndex>
      index_;  // id of a user -> index in users_; null while the set is small
};

// A program in SSA form: an ordered list of nodes, where every use of a node comes after it.
class REFX_API Graph : public Table<Node> {
 public:
  // The users in graph order, without duplicates.
  std::vector<NodeId> users(NodeId id) const;
  std::size_t num_users(NodeId id) const { return users_.at(id.value).size(); }
  // Counts every reference: a node may use a value more than once.
  std::size_t num_uses(NodeId id) const;
  // The only user of `id`; no id if there are none or several.
  NodeId only_user(NodeId id) const;

  // The placeholder and get_attr nodes of a state entry, and the call_module nodes of a module.
  std::vector<NodeId> readers(const NameKey& state) const { return ring(readers_, state); }
  std::vector<NodeId> callers(const NameKey& module) const { return ring(callers_, module); }

  std::size_t num_readers(const NameKey& state) const { return ring_size(readers_, state); }
  std::size_t num_callers(const NameKey& module) const { return ring_size(callers_, module); }
  template <class F>  // calls f in an unspecified order
  void for_each_reader(const NameKey& state, F&& f) const {
    readers_.for_each(any_in(readers_, state), [&](std::uint32_t id) { f(NodeId(id)); });
  }
  // Returns true if no other node reads the state entry that this node reads.
  bool is_only_reader(NodeId id) const { return readers_.is_alone(id.value); }

  // The output node; throws Error if there is none.
  NodeId output() const;

 private:
  friend struct ModelAccess;
  Id<Node> insert_slot(NodeId where);
  Ptr exchange(NodeId id, Ptr value);
  void add_uses(NodeId user, const Node& node);
  void remove_uses(NodeId user, const Node& node, std::size_t most = static_cast<std::size_t>(-1));
  void enter_ring(NodeId id, const Node& node);
  void leave_ring(NodeId id, const Node& node);
  Rings* rings_of(const Node& node);
  std::uint32_t any_in(const Rings& rings, const NameKey& name) const;
  std::vector<NodeId> ring(const Rings& rings, const NameKey& name) const;
  std::size_t ring_size(const Rings& rings, const NameKey& name) const;
  std::vector<NodeId> in_order(std::vector<NodeId> ids) const;

  std::vector<UserSet> users_;
  Rings readers_, callers_;  // grouped by state entry, and by module
};

}  // namespace refx
