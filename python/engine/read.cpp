// SPDX-License-Identifier: Apache-2.0

// Reads a GraphModule into its mirror. The first time everything is new. Later only what differs is
// written: nodes, modules and tensors that came, went or changed become one step; what training,
// .to() and .train() do is no rewrite, and is adopted without one.

#include "engine/adopt.h"
#include "engine/compare.h"
#include "engine/mirror.h"
#include "engine/values.h"
#include "refx/restore.h"

namespace refx::fx {

// Mostly nobody has changed anything.
bool Mirror::is_as_seen(const Tables& tables, py::handle graph_module) const {
  if (!tables.sight.is_same(graph_module)) return false;
  for (StateId id : model_.state()) {
    const TensorSnapshot& last = snapshots_[id.value];
    if (TensorSnapshot::of(model_.state().tensor(id), last.sample.has_value()) != last)
      return false;
  }
  return has_same_nodes(model_, tables, graph_module.attr("graph"));
}

void Mirror::see(Tables& tables, py::handle graph_module) const {
  std::vector<std::string> attributes;
  for (NodeId id : model_.graph()) {
    const Node& node = model_.graph()[id];
    const bool opaque = node.op == Opcode::call_function && node.target.starts_with(kOpaqueAttr);
    if (node.op != Opcode::get_attr && !opaque) continue;
    const std::string path = node.target.substr(opaque ? kOpaqueAttr.size() : 0);
    const StateId state = model_.state().find(path);
    if (!state || model_.state()[state].kind == StateKind::constant) attributes.push_back(path);
  }
  tables.sight.take(graph_module, std::move(attributes));
}

StepId Mirror::read(Tables& tables, py::handle graph_module, const Author& author) {
  if (is_read_ && is_as_seen(tables, graph_module)) return {};
  tables.sight.forget();
  Survey survey(graph_module);
  const bool training = attr(graph_module, Fx::get().training).ptr() == Py_True;
  const bool toggled = training != training_;
  StepId step;
  if (is_read_) {
    adopt_tensors(model_, snapshots_, survey, toggled ? std::optional(training) : std::nullopt,
                  author.transformation == kOthers);
    step = compare(model_, tables, survey, author);
    take_snapshots();
    see(tables, graph_module);
  } else {
    fill(tables, survey);
  }
  training_ = training;
  return step;
}

void Mirror::fill(Tables& tables, const Survey& survey) try {
  Values values(model_, tables, survey);
  Restorer restorer(model_);
  tables.grow(static_cast<std::uint32_t>(survey.nodes.size()));
  restorer.reserve<StateEntry>(survey.states.size());
  restorer.reserve<Module>(survey.modules.size());
  restorer.reserve<Node>(survey.nodes.size());
  for (const FoundState& found : survey.states)
    restorer.put(restorer.add_slot<StateEntry>(),
                 std::make_shared<const StateEntry>(values.entry_of(found)));
  for (const FoundModule& found : survey.modules)
    restorer.put(restorer.add_slot<Module>(),
                 std::make_shared<const Module>(values.module_of(found)));
  for (const FxNode& fx_node : survey.nodes) {
    const py::object meta = attr(fx_node.node, Fx::get().meta);
    Node node = values.node_of(fx_node, meta);
    const NodeId id = restorer.add_slot<Node>();
    tables.set_id(fx_node.node, id);
    values.remember(id, fx_node, meta);
    restorer.put(id, std::make_shared<const Node>(std::move(node)));
  }
  take_snapshots();
  is_read_ = true;
} catch (...) {
  model_ = Model();
  tables.clear_nodes();
  throw;
}

}  // namespace refx::fx
