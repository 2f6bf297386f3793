// SPDX-License-Identifier: Apache-2.0

#include "ir/origins.h"

#include <algorithm>

#include "ir/module_path.h"

namespace refx {

namespace {

void add_new(std::vector<Name>& to, const std::vector<Name>& names) {
  for (const Name& name : names)
    if (std::find(to.begin(), to.end(), name) == to.end()) to.push_back(name);
}

// Placeholders and get_attrs of tensors: their tensors are journaled themselves.
bool reads_tensor(const Node& node) { return !bound_state(node).empty(); }

}  // namespace

void Origin::add(const Origin& other) {
  add_new(tensors, other.tensors);
  add_new(nodes, other.nodes);
}

Origins::Origins(const History& history) {
  for (const Step& step : history) add_step(step);
}

Origin Origins::before(const Change<Node>& change) const {
  Origin origin;
  origin.nodes.emplace_back(node_path(*change.before));
  if (change.before->op == Opcode::call_module)
    origin.nodes.emplace_back(change.before->target + "." + change.before->name);
  if (const Origin* earlier = of(change.id)) origin.add(*earlier);
  return origin;
}

Origin Origins::before(const Change<StateEntry>& change) const {
  if (const Origin* earlier = of(change.id)) return *earlier;
  return {{change.before->name}, {}};
}

void Origins::add_step(const Step& step) {
  auto replaced = std::make_shared<Origin>(), erased = std::make_shared<Origin>();
  for (const Edit& edit : step.edits) {
    if (const auto* state = std::get_if<Change<StateEntry>>(&edit); state && state->before)
      replaced->add(before(*state));
    const auto* node = std::get_if<Change<Node>>(&edit);
    if (!node || !node->before || reads_tensor(*node->before)) continue;
    if (!node->after) erased->add(before(*node));
    if (!node->after || node->after->target != node->before->target) replaced->add(before(*node));
  }
  for (const Edit& edit : step.edits) {
    if (const auto* state = std::get_if<Change<StateEntry>>(&edit); state && state->after)
      states_[state->id] = replaced;
    if (const auto* module = std::get_if<Change<Module>>(&edit); module && module->after)
      modules_[module->id] = replaced;
    const auto* node = std::get_if<Change<Node>>(&edit);
    if (!node || !node->after) continue;
    if (!node->before) {
      nodes_[node->id] = replaced;
    } else if (node->after->target != node->before->target && !erased->nodes.empty()) {
      auto absorbed = std::make_shared<Origin>(before(*node));
      absorbed->add(*erased);
      nodes_[node->id] = std::move(absorbed);
    }
  }
  steps_[step.id] = std::move(replaced);
}

}  // namespace refx
