// SPDX-License-Identifier: Apache-2.0

// A transformation that refx does not have. It is registered if REFX_ONE_MORE is set, in these
// tests and in a program that is linked with this file. Nothing else may need to know it.

#include <cstdlib>

#include "refx/registry.h"

namespace refx::testing {
namespace {

class SpellOutSoftmax : public ReversibleTransformation {
 public:
  std::string name() const override { return "spell-out-softmax"; }
  std::string summary() const override { return "softmax(x, d) -> _softmax(x, d, False)"; }
  Numerics numerics() const override { return Numerics::preserved; }

  Findings find(const Model& model) const override {
    Findings findings;
    for (NodeId id : model.graph())
      if (const Node& node = model.graph()[id];
          node.target == "aten.softmax.int" && node.args.size() == 2 && node.kwargs.empty())
        findings.sites.push_back({node.name, {id}});
    return findings;
  }

  std::optional<Reason> apply(Editor& editor, const Site& site) const override {
    Node node = editor.graph()[site.nodes[0]];
    node.target = "aten._softmax.default";
    node.args.emplace_back(false);
    editor.set_node(site.nodes[0], std::move(node));
    return std::nullopt;
  }
};

const bool registered = [] {
  if (std::getenv("REFX_ONE_MORE")) register_transformation<SpellOutSoftmax>();
  return true;
}();

}  // namespace
}  // namespace refx::testing
