// SPDX-License-Identifier: Apache-2.0

// Reads a GraphModule into its mirror. The first read takes everything as new. Later reads record
// the differences: nodes, modules and tensors that were added, removed or changed become one step.
// The effects of training, .to() and .train() are not rewrites, and are adopted without a step.

#include "engine/adopt.h"
#include "engine/compare.h"
#include "engine/mirror.h"
#include "engine/values.h"
#include "refx/restore.h"

namespace refx::fx {

// The cheap checks first: usually nothing has changed, and each of them can end the read early only
// if it fails. All three are needed, because tensors and nodes are changed in place.
bool Mirror::is_synced(const Tables& tables, py::handle graph_module) const {
  if (!tables.identities.matches(graph_module)) return false;
  for (StateId id : model_.state()) {
    const TensorSnapshot& last = snapshots_[id.value];
    if (TensorSnapshot::of(model_.state().tensor(id), last.sample.has_value()) != last)
      return false;
  }
  return has_same_nodes(model_, tables, graph_module.attr("graph"));
}

void Mirror::mark_synced(Tables& tables, py::handle graph_module) const {
  std::vector<std::string> attributes;
  for (NodeId id : model_.graph()) {
    const Node& node = model_.graph()[id];
    // Parameters and buffers are compared as parts of their modules. Everything else that nodes
    // read is found only by its path.
    const bool opaque = node.op == Opcode::call_function && node.target.starts_with(kOpaqueAttr);
    if (node.op != Opcode::get_attr && !opaque) continue;
    const std::string path = node.target.substr(opaque ? kOpaqueAttr.size() : 0);
    const StateId state = model_.state().find(path);
    if (!state || model_.state()[state].kind == StateKind::constant) attributes.push_back(path);
  }
  tables.identities.capture(graph_module, std::move(attributes));
}

StepId Mirror::read(Tables& tables, py::handle graph_module, const Author& author) {
  if (is_read_ && is_synced(tables, graph_module)) return {};
  tables.identities.forget();
  Survey survey(graph_module);
  const bool training = attr(graph_module, Fx::get().training).ptr() == Py_True;
  const bool toggled = training != training_;
  StepId step;
  if (is_read_) {
    // Before compare(), which would record new values of weights as rewrites.
    adopt_tensors(model_, snapshots_, survey, toggled ? std::optional(training) : std::nullopt,
                  author.transformation == kOthers);
    step = compare(model_, tables, survey, author);
    take_snapshots();
    mark_synced(tables, graph_module);
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
  // A half-read model would make the next read record the rest as a change by others.
  model_ = Model();
  tables.clear_nodes();
  throw;
}

}  // namespace refx::fx
