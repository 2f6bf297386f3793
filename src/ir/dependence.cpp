// SPDX-License-Identifier: Apache-2.0

#include "ir/dependence.h"

#include <algorithm>

namespace refx {

namespace {

// True if the edit makes its node read a tensor, or call a module, that it did not read or call
// before. A node that is only rewritten and still uses the same tensor does not depend on the step
// that last changed the tensor: it would work with the earlier one, too.
bool newly_reads(const Change<Node>& change) {
  if (!change.before) return true;
  auto called = [](const Node& node) {
    return node.op == Opcode::call_module ? node.target : Name();
  };
  return bound_state(*change.before) != bound_state(*change.after) ||
         called(*change.before) != called(*change.after);
}

}  // namespace

template <class F>
void Dependence::for_each_access(const Step& step, F&& f) {
  for (const Edit& edit : step.edits) {
    for_each_write(edit, [&](ObjectKey object, bool invalidates) {
      f(object, invalidates ? kWrites | kInvalidates : kWrites);
    });
    const auto* change = std::get_if<Change<Node>>(&edit);
    if (!change || !change->after) continue;
    const int accesses = newly_reads(*change) ? kRefers | kNewlyReads : kRefers;
    for_each_reference(*change->after, [&](ObjectKey object) { f(object, accesses); });
  }
}

std::vector<StepId> Dependence::causes(const Step& step) const {
  std::vector<StepId> found;
  for_each_access(step, [&](ObjectKey object, int accesses) {
    auto it = entries_.find(object);
    if (it == entries_.end()) return;
    for (const Entry& entry : it->second)
      if (entry.accesses & accesses) found.push_back(entry.step);
  });
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

void Dependence::record(ObjectKey object, StepId step, std::uint8_t accesses) {
  Entries& all = entries_[object];
  // The edits of one step arrive together, so its entry can only be the last one.
  if (all.empty() || all.back().step != step) all.push_back({step, 0});
  all.back().accesses |= accesses;
}

// Every step with an entry that this edit triggers is a cause of the edit's step. Each later write
// of the object then depends on the edit's step anyway, and through it on those causes. Removing
// them keeps a list at the length of what is still needed: without that, n steps that write one
// object would take n² time.
void Dependence::represent_causes(const Edit& edit) {
  for_each_write(edit, [&](ObjectKey object, bool invalidates) {
    auto it = entries_.find(object);
    if (it == entries_.end()) return;
    // Not kRefers: it means that the earlier step made the node. Whoever refers to the node needs
    // that step, not the one that rewrote the node.
    constexpr std::uint8_t kRepresented = kWrites | kInvalidates | kNewlyReads;
    const int accesses = invalidates ? kWrites | kInvalidates : kWrites;
    Entries& all = it->second;
    for (Entry& entry : all)
      if (entry.accesses & accesses) entry.accesses &= ~kRepresented;
    all.erase(std::remove_if(all.begin(), all.end(), [](const Entry& e) { return !e.accesses; }),
              all.end());
  });
}

void Dependence::add(const Step& step, As as) {
  // Before the step's own entries exist, which must not be removed.
  if (as == As::dependent)
    for (const Edit& edit : step.edits) represent_causes(edit);
  for (const Edit& edit : step.edits) {
    const auto* change = std::get_if<Change<Node>>(&edit);
    if (!change) {
      // A node that starts to use a tensor or a module relies on what this step made of it.
      for_each_write(
          edit, [&](ObjectKey object, bool) { record(object, step.id, kWrites | kNewlyReads); });
      continue;
    }
    // A node that the step made disappears when it is reversed, so that nobody may refer to it. A
    // node that it only rewrote stays, and may be referred to.
    record(key_of(change->id), step.id, change->before ? kWrites : kWrites | kRefers);
    if (!change->before) continue;
    // What the restored node refers to must still be there, unchanged: a later step that erases or
    // replaces it has to be reversed first.
    for_each_reference(*change->before,
                       [&](ObjectKey object) { record(object, step.id, kInvalidates); });
    // The same for a tensor that it reads through a placeholder or get_attr node: that node stays
    // while the tensor behind it is replaced.
    for_each_input(*change->before, [&](NodeId input) {
      if (const Node* node = graph_.find(input))
        if (auto state = bound_state(*node); !state.empty())
          record(key_of_state(state), step.id, kInvalidates);
    });
  }
}

}  // namespace refx
