// SPDX-License-Identifier: Apache-2.0

#include "refx/validate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "book/effect.h"
#include "edit/broken_references.h"
#include "refx/error.h"

namespace refx {

namespace {

void check_inputs(const Model& model, NodeId id, const Node& node, std::vector<std::string>& out) {
  const Graph& graph = model.graph();
  for_each_input(node, [&](NodeId input) {
    if (!graph.contains(input))
      out.push_back(
          fmt::format("node '{}' uses node id {}, which is erased", node.name, input.value));
    else if (!graph.precedes(input, id))
      out.push_back(
          fmt::format("node '{}' uses '{}' before it is defined", node.name, graph[input].name));
  });
}

// A node that reads a state entry must have the type of its tensor. Only dtype and sizes are
// compared: a weight may get other strides, or move to another device, while the graph stays valid.
void check_type(const Node& node, const StateEntry& entry, std::vector<std::string>& out) {
  if (!node.type) return;
  const at::TensorBase& tensor = entry.tensor;
  if (node.type->dtype != tensor.scalar_type())
    out.push_back(fmt::format("node '{}' says {}, but its tensor '{}' is {}", node.name,
                              c10::toString(node.type->dtype), entry.name,
                              c10::toString(tensor.scalar_type())));
  bool same = node.type->sizes.size() == static_cast<std::size_t>(tensor.dim());
  for (std::size_t i = 0; same && i < node.type->sizes.size(); ++i)
    same = node.type->sizes[i] == Dim(tensor.size(static_cast<std::int64_t>(i)));
  if (!same)
    out.push_back(
        fmt::format("node '{}' and its tensor '{}' have different sizes", node.name, entry.name));
}

void check_state(const Model& model, const Node& node, std::vector<std::string>& out) {
  const Name& name = bound_state(node);
  if (name.empty()) return;
  if (const StateId id = model.state().find(name))
    check_type(node, model.state()[id], out);
  else
    out.push_back(
        fmt::format("node '{}' reads state entry '{}', which does not exist", node.name, name));
}

void check_place(const Model& model, NodeId id, std::vector<std::string>& out) {
  const Node& node = model.graph()[id];
  if (node.op == Opcode::output && id != model.graph().last())
    out.push_back(fmt::format("output node '{}' is not the last node", node.name));
}

// Erasing is checked from the side of the erased object, whose users were not necessarily edited.
void check_erased(const Model& model, const Change<Node>& change, std::vector<std::string>& out) {
  if (!change.before || model.graph().num_users(change.id) == 0) return;
  out.push_back(fmt::format("node '{}' was erased but is still used", change.before->name));
}

void check_erased(const Model& model, const Change<StateEntry>& change,
                  std::vector<std::string>& out) {
  if (!change.before || model.graph().num_readers(change.before->name) == 0) return;
  out.push_back(fmt::format("state entry '{}' was erased but is still read", change.before->name));
}

void check_erased(const Model& model, const Change<Module>& change, std::vector<std::string>& out) {
  if (!change.before || model.graph().num_callers(change.before->name) == 0) return;
  out.push_back(fmt::format("module '{}' was erased but is still called", change.before->name));
}

void check_written(const Model& model, const Change<Node>& change, std::vector<std::string>& out) {
  for (std::string& problem : broken_references(model, change.id))
    out.push_back(std::move(problem));
}

// A new tensor must still fit the nodes that read it, which may not be among the edited ones.
void check_written(const Model& model, const Change<StateEntry>& change,
                   std::vector<std::string>& out) {
  model.graph().for_each_reader(change.after->name, [&](NodeId reader) {
    check_type(model.graph()[reader], *change.after, out);
  });
}

void check_written(const Model&, const Change<Module>&, std::vector<std::string>&) {}

}  // namespace

std::vector<std::string> broken_references(const Model& model, NodeId id) {
  std::vector<std::string> out;
  const Node& node = model.graph()[id];
  check_inputs(model, id, node, out);
  check_state(model, node, out);
  if (node.op == Opcode::call_module && !model.modules().find(node.target))
    out.push_back(
        fmt::format("node '{}' calls module '{}', which does not exist", node.name, node.target));
  return out;
}

std::vector<std::string> broken_references(const Model& model, const std::vector<Edit>& edits) {
  std::vector<std::string> out;
  for (const Edit& edit : edits)
    std::visit(
        [&](const auto& change) {
          if (!change.id) return;
          change.after ? check_written(model, change, out) : check_erased(model, change, out);
        },
        edit);
  return out;
}

std::vector<std::string> problems(const Model& model, NodeId id) {
  std::vector<std::string> out = broken_references(model, id);
  check_place(model, id, out);
  return out;
}

// Takes time in proportion to the edits, since every step of a rewrite is checked.
std::vector<std::string> problems(const Model& model, const std::vector<Edit>& edits) {
  std::vector<std::string> out = broken_references(model, edits);
  for (const Edit& edit : edits)
    if (const auto* change = std::get_if<Change<Node>>(&edit); change && change->after)
      check_place(model, change->id, out);
  return out;
}

std::vector<std::string> problems(const Model& model) {
  std::vector<std::string> out;
  const Graph& graph = model.graph();
  std::vector<std::uint32_t> uses(graph.id_limit());
  for (NodeId id : graph) {
    for (std::string& problem : problems(model, id)) out.push_back(std::move(problem));
    if (graph.find(graph[id].name) != id)
      out.push_back(fmt::format("node name '{}' stands for another node", graph[id].name));
    // Counts the users again, to compare them with those that the table maintains at every edit.
    std::vector<NodeId> inputs;
    for_each_input(graph[id], [&](NodeId input) { inputs.push_back(input); });
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    for (NodeId input : inputs) ++uses[input.value];
  }
  for (NodeId id : graph)
    if (uses[id.value] != graph.num_users(id))
      out.push_back(fmt::format("node '{}' has {} users but counts {}", graph[id].name,
                                uses[id.value], graph.num_users(id)));
  if (graph.empty() || graph[graph.last()].op != Opcode::output)
    out.push_back("the graph does not end with an output node");
  for (const Mutation& mutation : model.mutations())
    if (!model.state().find(mutation.target) && !graph.find(mutation.target))
      out.push_back(fmt::format("output {} mutates '{}', which does not exist", mutation.output,
                                mutation.target));
  return out;
}

void validate(const Model& model) {
  const auto found = problems(model);
  if (!found.empty()) throw Error(fmt::format("the model is broken: {}", fmt::join(found, "; ")));
}

bool only_erase_values(const Model& model, const std::vector<Edit>& edits) {
  return std::all_of(edits.begin(), edits.end(), [&](const Edit& edit) {
    const auto* change = std::get_if<Change<Node>>(&edit);
    if (!change || change->after) return false;
    const Node& node = *change->before;
    if (node.op == Opcode::placeholder || node.op == Opcode::output) return false;
    const book::Effect effect = book::effect_of(model, node);
    return !effect.writes_first && !effect.writes_all && !book::why_not_repeatable(model, node);
  });
}

}  // namespace refx
