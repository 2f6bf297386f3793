// SPDX-License-Identifier: Apache-2.0

#include "lab/run/converted.h"

#include "graph_json/subgraph.h"
#include "ir/content.h"
#include "refx/editor.h"
#include "refx/reverse.h"

namespace refx {

namespace {

// Nodes in branches and loops are converted as well.
void convert_subgraphs(Node& call, const std::function<void(Node&)>& node) {
  for (Arg& arg : call.args) {
    if (!is_subgraph(arg)) continue;
    Subgraph subgraph = read_subgraph(arg);
    Editor editor(subgraph.model);
    for (NodeId id : subgraph.model.graph()) {
      Node changed = subgraph.model.graph()[id];
      node(changed);
      convert_subgraphs(changed, node);
      if (!(changed == subgraph.model.graph()[id])) editor.set_node(id, std::move(changed));
    }
    editor.commit_as_origin();
    arg = write_subgraph(subgraph);
  }
}

}  // namespace

Model converted(const Model& model, const std::function<at::Tensor(const at::Tensor&)>& tensor,
                const std::function<void(Node&)>& node) {
  Model copy = model;
  forget(copy);
  Editor editor(copy);
  std::unordered_map<const void*, at::Tensor> made;
  for (StateId id : model.state()) {
    const at::Tensor old(model.state().tensor(id));
    require_content(old);
    at::Tensor& now = made[old.unsafeGetTensorImpl()];
    if (!now.defined()) now = tensor(old);
    if (!now.is_same(old)) editor.set_state(id, now);
  }
  for (NodeId id : model.graph()) {
    Node changed = model.graph()[id];
    node(changed);
    convert_subgraphs(changed, node);
    if (!(changed == model.graph()[id])) editor.set_node(id, std::move(changed));
  }
  editor.commit_as_origin(model.source());
  return copy;
}

}  // namespace refx
