// SPDX-License-Identifier: Apache-2.0

#include "edit/check_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "edit/broken_references.h"
#include "ir/piece.h"
#include "refx/error.h"
#include "util/limits.h"

namespace refx {

namespace {

[[noreturn]] void wrong(const Step& step, const std::string& what) {
  throw Error(fmt::format("step {} {}", step.id.value, what));
}

template <class T>
const Table<T>& table_of(const Model& model) {
  if constexpr (std::is_same_v<T, Node>)
    return model.graph();
  else if constexpr (std::is_same_v<T, StateEntry>)
    return model.state();
  else
    return model.modules();
}

void check_name(const std::string& name) {
  if (name.empty()) throw Error("something has no name");
}

// Kind and id of the object that each edit writes.
std::vector<std::pair<std::size_t, std::uint32_t>> objects_of(const Step& step) {
  std::vector<std::pair<std::size_t, std::uint32_t>> objects;
  for (const Edit& edit : step.edits)
    objects.emplace_back(edit.index(),
                         std::visit([](const auto& change) { return change.id.value; }, edit));
  return objects;
}

template <class T>
void check_change(const Step& step, const Change<T>& change) {
  if (!change.before && !change.after) wrong(step, "has an edit of something that never was there");
  if (change.before && change.after && change.before->name != change.after->name)
    wrong(step, fmt::format("renames '{}' to '{}'", change.before->name, change.after->name));
}

// Step::nodes are shown to users and marked, so they must be nodes that the step wrote.
void check_nodes(const Step& step) {
  std::vector<NodeId> written;
  for (const Edit& edit : step.edits)
    if (const auto* change = std::get_if<Change<Node>>(&edit); change && change->after)
      written.push_back(change->id);
  std::sort(written.begin(), written.end());
  for (NodeId id : step.nodes)
    if (!std::binary_search(written.begin(), written.end(), id))
      wrong(step, "names a node as its own that it did not write");
}

// A node in a parameter would be a reference that no user list knows of, so that the node could be
// erased.
void check_parameters(const Step& step) {
  for (const auto& [name, value] : step.parameters)
    for_each_node(value, [&](NodeId) {
      wrong(step, fmt::format("has a node of the graph as its parameter '{}'", name));
    });
}

// There must be one stamp for each tensor that the step left in the state, in the order of the
// edits: carry_back.cpp and redo() walk both lists together.
void check_stamps(const Step& step) {
  auto next = step.stamps.begin();
  for (const Edit& edit : step.edits) {
    const auto* change = std::get_if<Change<StateEntry>>(&edit);
    if (!change || !change->after) continue;
    if (next == step.stamps.end() || next->state != change->id)
      wrong(step, fmt::format("does not say what it made of '{}'", change->after->name));
    ++next;
  }
  if (next != step.stamps.end()) wrong(step, "says that it made a tensor that it did not make");
}

using StateChanges = std::unordered_map<StateId, const Change<StateEntry>*>;

StateChanges changes_of(const Step& step) {
  StateChanges changes;
  if (step.pieces.empty()) return changes;  // most steps
  for (const Edit& edit : step.edits)
    if (const auto* change = std::get_if<Change<StateEntry>>(&edit)) changes[change->id] = change;
  return changes;
}

// Pieces refer to edits of the same step, where carry_back.cpp looks them up without a check.
void check_names_of_pieces(const Step& step) {
  const StateChanges changes = changes_of(step);
  for (const Piece& piece : step.pieces) {
    const auto whole = changes.find(piece.whole);
    if (whole == changes.end() || !whole->second->after)
      wrong(step, "has pieces of a tensor that it did not make");
    if (!piece.part) continue;
    const auto part = changes.find(piece.part);
    if (part == changes.end() || !part->second->before)
      wrong(step, fmt::format("has a piece of '{}' that stands for nothing that it replaced",
                              whole->second->after->name));
  }
}

}  // namespace

void check_value(const Model& model, const Node& node) {
  check_name(node.name);
  for_each_input(node, [&](NodeId input) {
    if (input.value >= model.graph().id_limit())
      throw Error(fmt::format("node '{}' uses a node that there is not", node.name));
  });
}

void check_value(const Model&, const StateEntry& entry) {
  check_name(entry.name);
  if (!entry.tensor.defined()) throw Error(fmt::format("'{}' has no tensor", entry.name));
}

void check_value(const Model&, const Module& module) { check_name(module.name); }

void check_values(const Model& model, const Step& step) {
  if (!step.id || step.id.value >= limits::kStepId)
    throw Error(fmt::format("a step has the number {}", step.id.value));
  // With two edits of one object, undoing the step would depend on their order.
  auto objects = objects_of(step);
  std::sort(objects.begin(), objects.end());
  if (std::adjacent_find(objects.begin(), objects.end()) != objects.end())
    wrong(step, "has two edits of one object");
  for (const Edit& edit : step.edits)
    std::visit(
        [&]<class T>(const Change<T>& change) {
          if (change.id.value >= table_of<T>(model).id_limit())
            wrong(step, "has an edit of an object that there is not");
          for (const auto& value : {change.before, change.after})
            if (value) check_value(model, *value);
        },
        edit);
}

void check_step(const Step& step) {
  for (const Edit& edit : step.edits)
    std::visit([&](const auto& change) { check_change(step, change); }, edit);
  check_nodes(step);
  check_parameters(step);
  check_stamps(step);
  check_names_of_pieces(step);
}

void check_pieces(const Step& step) {
  const StateChanges changes = changes_of(step);
  for (const Piece& piece : step.pieces) {
    const StateEntry& whole = *changes.at(piece.whole)->after;
    if (piece.part ? !fits(piece, whole.tensor, changes.at(piece.part)->before->tensor)
                   : !is_inside(piece, whole.tensor))
      wrong(step, fmt::format("has a piece of '{}' that is not inside it", whole.name));
  }
}

void check_model(const Model& model, const Step& step, const std::vector<Edit>& edits) {
  if (const auto found = broken_references(model, edits); !found.empty())
    wrong(step, fmt::format("does not lead from one model to another: {}", found.front()));
}

}  // namespace refx
