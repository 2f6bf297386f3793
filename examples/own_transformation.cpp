// SPDX-License-Identifier: Apache-2.0

// A transformation of your own, with its log and its undo: relu(relu(x)) -> relu(x).

#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <refx/refx.h>

#include <iostream>

using namespace refx;

// ---- the transformation ----

class DropRepeatedRelu : public ReversibleTransformation {
 public:
  std::string name() const override { return "drop-repeated-relu"; }
  std::string summary() const override { return "relu(relu(x)) -> relu(x)"; }
  Numerics numerics() const override { return Numerics::preserved; }

  Findings find(const Model& model) const override {
    Findings findings;
    for (NodeId id : model.graph())
      if (is_relu(model, id) && is_relu(model, input(model, id)))
        findings.sites.push_back({.nodes = {id}});
    return findings;
  }

  // The outer relu now reads what the inner one reads; if nobody else uses that one, it goes.
  std::optional<Reason> apply(Editor& editor, const Site& site) const override {
    const NodeId outer = site.nodes[0], inner = input(editor.model(), outer);
    editor.set_arg(outer, 0, input(editor.model(), inner));
    if (editor.graph().num_users(inner) == 0) editor.erase_node(inner);
    return std::nullopt;
  }

 private:
  static bool is_relu(const Model& model, NodeId id) {
    return model.graph()[id].target == "aten.relu.default";
  }
  static NodeId input(const Model& model, NodeId id) {
    return *model.graph()[id].args.at(0).get<NodeId>();
  }
};

// ---- its use ----

int main() {
  register_transformation<DropRepeatedRelu>();

  Builder b;
  NodeId x = b.input("x");
  for (int i = 0; i < 3; ++i) x = b.call("aten.relu.default", {x});
  Model model = b.build(x);
  const std::string original = print(model);
  const at::Tensor input = at::randn({4});
  const at::Tensor expected = model.forward({input}).toTensor();

  find_transformation("drop-repeated-relu")(model);
  for (const Step& step : model.history()) std::cout << step << '\n';
  std::cout << model;
  if (!at::equal(model.forward({input}).toTensor(), expected)) return 1;

  reverse(model, "drop-repeated-relu");
  std::cout << (print(model) == original ? "reversed: identical\n" : "reversed: DIFFERENT\n");
  return print(model) == original && model.history().empty() ? 0 : 1;
}
