// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refx/edit.h"

namespace refx {

// A key for any object of a model, found without the model: nodes by id, state entries and modules
// by their name, which never changes. (Two names with one hash would only add a dependency.)
using ObjectKey = std::uint64_t;

inline ObjectKey key_of(NodeId id) { return id.value; }
inline ObjectKey key_of_state(const NameKey& name) { return (name.hash() << 2) | 1ull << 63 | 1; }
inline ObjectKey key_of_module(const NameKey& path) { return (path.hash() << 2) | 1ull << 63 | 2; }

// What a node refers to: its inputs, and the state entry or module that it names.
template <class F>
void for_each_reference(const Node& node, F&& f) {
  for_each_input(node, [&](NodeId id) { f(key_of(id)); });
  if (auto state = bound_state(node); !state.empty()) f(key_of_state(state));
  if (node.op == Opcode::call_module) f(key_of_module(node.target));
}

// What an edit writes, as f(key, invalidates): whether someone who relied on the object before can
// no longer do so. A node rewritten in place still yields its value; a tensor or a module does not
// stay what it was, and a module changes with each of its tensors.
template <class F>
void for_each_write(const Edit& edit, F&& f) {
  if (const auto* change = std::get_if<Change<Node>>(&edit)) {
    f(key_of(change->id), !change->after);
  } else if (const auto* change = std::get_if<Change<StateEntry>>(&edit)) {
    const Name& name = (change->after ? change->after : change->before)->name;
    f(key_of_state(name), true);
    if (auto dot = name.rfind('.'); dot != name.npos)
      f(key_of_module(name.view().substr(0, dot)), true);
  } else {
    const auto& module = std::get<Change<Module>>(edit);
    f(key_of_module((module.after ? module.after : module.before)->name), true);
  }
}

}  // namespace refx
