// SPDX-License-Identifier: Apache-2.0

#include "ir/dependence.h"

#include <algorithm>

namespace refx {

namespace {

// Whether the edit made its node read a tensor, or call a module, that it did not before.
bool comes_to_use(const Change<Node>& change) {
  if (!change.before) return true;
  auto called = [](const Node& node) {
    return node.op == Opcode::call_module ? node.target : Name();
  };
  return bound_state(*change.before) != bound_state(*change.after) ||
         called(*change.before) != called(*change.after);
}

}  // namespace

template <class F>
void Dependence::for_each_deed(const Step& step, F&& f) {
  for (const Edit& edit : step.edits) {
    for_each_write(edit, [&](ObjectKey object, bool invalidates) {
      f(object, invalidates ? kWrites | kInvalidates : kWrites);
    });
    const auto* change = std::get_if<Change<Node>>(&edit);
    if (!change || !change->after) continue;
    const int deeds = comes_to_use(*change) ? kRefers | kComesToUse : kRefers;
    for_each_reference(*change->after, [&](ObjectKey object) { f(object, deeds); });
  }
}

std::vector<StepId> Dependence::causes(const Step& step) const {
  std::vector<StepId> found;
  for_each_deed(step, [&](ObjectKey object, int deeds) {
    auto it = concerns_.find(object);
    if (it == concerns_.end()) return;
    for (const Concern& concern : it->second)
      if (concern.deeds & deeds) found.push_back(concern.step);
  });
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

void Dependence::concern(ObjectKey object, StepId step, std::uint8_t deeds) {
  Concerns& all = concerns_[object];
  if (all.empty() || all.back().step != step) all.push_back({step, 0});
  all.back().deeds |= deeds;
}

// Whoever is concerned with what the edit writes is a cause of its step, which is concerned with
// every later write itself.
void Dependence::stand_for_causes(const Edit& edit) {
  for_each_write(edit, [&](ObjectKey object, bool invalidates) {
    auto it = concerns_.find(object);
    if (it == concerns_.end()) return;
    std::uint8_t taken_over = kWrites | kInvalidates;
    if (!std::holds_alternative<Change<Node>>(edit)) taken_over |= kComesToUse;
    const int deeds = invalidates ? kWrites | kInvalidates : kWrites;
    Concerns& all = it->second;
    for (Concern& concern : all)
      if (concern.deeds & deeds) concern.deeds &= ~taken_over;
    all.erase(std::remove_if(all.begin(), all.end(), [](const Concern& c) { return !c.deeds; }),
              all.end());
  });
}

void Dependence::add(const Step& step, As as) {
  if (as == As::dependent)
    for (const Edit& edit : step.edits) stand_for_causes(edit);
  for (const Edit& edit : step.edits) {
    const auto* change = std::get_if<Change<Node>>(&edit);
    if (!change) {
      // Who comes to use a tensor or a module relies on what this step made of it.
      for_each_write(
          edit, [&](ObjectKey object, bool) { concern(object, step.id, kWrites | kComesToUse); });
      continue;
    }
    concern(key_of(change->id), step.id, change->before ? kWrites : kWrites | kRefers);
    if (!change->before) continue;
    // What the node will refer to again must still be there, as it was.
    for_each_reference(*change->before,
                       [&](ObjectKey object) { concern(object, step.id, kInvalidates); });
    for_each_input(*change->before, [&](NodeId input) {
      if (const Node* node = graph_.find(input))
        if (auto state = bound_state(*node); !state.empty())
          concern(key_of_state(state), step.id, kInvalidates);
    });
  }
}

}  // namespace refx
