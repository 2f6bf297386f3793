// SPDX-License-Identifier: Apache-2.0

#include "report/both_graphs.h"

#include <ATen/core/TensorBase.h>

#include <algorithm>

#include "book/call.h"
#include "ops/names.h"

namespace refx {

namespace {

// The path of the module that a node belongs to; empty: the model itself.
std::string module_of(const Node& node) {
  if (const std::string_view state = bound_state(node); !state.empty())
    return std::string(state.find('.') == state.npos ? "" : owner_path(state));
  std::string place = node_path(node);  // the path, a dot, the name
  place.erase(place.size() - node.name.size());
  if (place.ends_with('.')) place.pop_back();
  if (place.empty() && node.op == Opcode::call_module && node.target.find('.') != std::string::npos)
    return std::string(owner_path(node.target));
  return place;
}

// The path of the tensor that a node reads, or of the module that it calls; else empty.
std::string label_of(const Node& node) {
  if (const std::string_view state = bound_state(node); !state.empty()) return std::string(state);
  return node.op == Opcode::call_module ? std::string(node.target) : "";
}

// What a node calls, or what kind of input it is.
std::string called(const Model& model, const Node& node) {
  if (!bound_state(node).empty()) return "weight";
  switch (node.op) {
    case Opcode::call_function:
    case Opcode::call_method:
      return node.target;
    case Opcode::call_module:
      return std::string(book::shown_name(model, node));
    case Opcode::placeholder:
      return "input";
    default:
      return std::string(to_string(node.op));
  }
}

}  // namespace

BothGraphs::BothGraphs(const Model& original, const Model& current, const NodeNames& names,
                       Strings& strings)
    : original_(original), current_(current) {
  collect_rewritten(original, current);
  std::vector<NodeId> ids;
  for (NodeId id : current.graph().slots()) {
    if (!current.graph().find(id) && !original.graph().find(id)) continue;
    if (id.value >= positions_.size()) positions_.resize(id.value + 1, -1);
    positions_[id.value] = static_cast<int>(ids.size());
    ids.push_back(id);
  }
  nodes_.reserve(ids.size());
  for (NodeId id : ids) nodes_.push_back(drawn(id, names, strings));
}

void BothGraphs::collect_rewritten(const Model& original, const Model& current) {
  for (const Step& step : current.history())
    for (const Edit& edit : step.edits) {
      if (const auto* state = std::get_if<Change<StateEntry>>(&edit)) {
        const StateEntry* before = original.state().find(state->id);
        const StateEntry* after = current.state().find(state->id);
        if (!before && !after) continue;  // made by one step and dropped by another
        if (before && after && before->tensor.is_same(after->tensor)) continue;
        const Name& name = (after ? after : before)->name;
        if (before && after) rewritten_state_.insert(name);
        rewritten_modules_.emplace(owner_path(name));
      } else if (const auto* module = std::get_if<Change<Module>>(&edit)) {
        const Module* before = original.modules().find(module->id);
        const Module* after = current.modules().find(module->id);
        if (before && after && !(*before == *after)) rewritten_modules_.insert(after->name);
      }
    }
}

// A node may read other values without being another node; the line says so.
std::string BothGraphs::line(const Node& node, const NodeNames& names, bool current) const {
  std::string text = line_of(node, names);
  if (!current) return text;
  const bool reads = rewritten_state_.contains(std::string(bound_state(node)));
  const bool calls = node.op == Opcode::call_module && rewritten_modules_.contains(node.target);
  return reads ? text + "  # new values" : calls ? text + "  # new weights" : text;
}

std::vector<int> BothGraphs::inputs_of(const Node& node) const {
  std::vector<int> inputs;
  for_each_input(node, [&](NodeId id) { inputs.push_back(position(id)); });
  std::sort(inputs.begin(), inputs.end());
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  return inputs;
}

DrawnNode BothGraphs::drawn(NodeId id, const NodeNames& names, Strings& strings) const {
  const Node* before = original_.graph().find(id);
  const Node* after = current_.graph().find(id);
  const Node& node = after ? *after : *before;
  DrawnNode drawn;
  drawn.id = id;
  drawn.name = strings.of(node.name);
  drawn.op = strings.of(called(after ? current_ : original_, node));
  drawn.op_before = before ? strings.of(called(original_, *before)) : drawn.op;
  drawn.path = strings.of(module_of(node));
  if (std::string label = label_of(node); !label.empty())
    drawn.label = strings.of(std::move(label));
  if (after) {
    drawn.after = strings.of(line(node, names, true));
    drawn.inputs = inputs_of(node);
  }
  if (before) {
    drawn.before = strings.of(line(*before, names, false));
    drawn.inputs_before = before == after ? drawn.inputs : inputs_of(*before);
  }
  return drawn;
}

}  // namespace refx
