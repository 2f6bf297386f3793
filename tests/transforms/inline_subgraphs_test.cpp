// SPDX-License-Identifier: Apache-2.0

#include "kit.h"
#include "writer.h"

namespace refx::testing {
namespace {

const char* const kInline = "inline-subgraphs";

TEST(InlineSubgraphs, PutsTheNodesOfARegionInItsPlace) {
  for (Spelling spelling : {Spelling::aten, Spelling::functional, Spelling::module}) {
    Writer w(spelling);
    const NodeId x = w.input({2, 3});
    Model model = w.build(w.region(x));
    apply(model, find_transformation(kInline));
    std::vector<std::string> targets;
    for (NodeId id : model.graph()) targets.emplace_back(model.graph()[id].target);
    // The input may have gradients, the result must not.
    EXPECT_EQ(targets[1], "aten.neg.default");
    EXPECT_EQ(targets[2], "aten.mul.Tensor");
    EXPECT_EQ(targets[3], "aten.detach.default");
  }
}

TEST(InlineSubgraphs, KeepsResultsAndIsTakenBack) {
  Writer w(Spelling::aten);
  const NodeId x = w.input({2, 3});
  const NodeId y = w.linear(w.region(x), "a", 3);
  expect_applies(kInline, w.build(Tuple{{w.region(y), y}}));
}

TEST(InlineSubgraphs, RefusesBranches) {
  Writer w(Spelling::aten);
  const NodeId x = w.input({2, 3});
  expect_refused(kInline, w.build(w.branch(x)), "it is a branch or a loop");
}

TEST(InlineSubgraphs, RefusesOperatorsThatItDoesNotKnow) {
  Builder b;
  const NodeId x = b.input("x");
  const NodeId y = b.call("higher_order.flex_attention", {x});
  expect_refused(kInline, b.build(y), "refx does not know this higher-order operator");
}

TEST(Subgraphs, SitesInBranchesAreNamedAndTakenBack) {
  Writer w(Spelling::aten);
  const NodeId x = w.input({2, 3});
  Model model = w.build(w.branch(x));
  const std::string before = snapshot(model);
  const Rule rule = parse_rules(R"(
rule add-instead-of-doubling  "x * 2 -> x + x"
before(x):
    return x * 2.0
after:
    return x + x
)")[0];
  const Findings found = find_sites(model, rule);
  ASSERT_EQ(found.sites.size(), 2u);
  EXPECT_TRUE(found.sites[0].name.starts_with("cond/submod_1/")) << found.sites[0].name;
  const std::vector<c10::IValue> inputs = random_inputs(model);
  const at::Tensor original = Executor(model).run(inputs).toTensor();
  EXPECT_GT(apply(model, rule).steps.size(), 0u);
  EXPECT_TRUE(Executor(model).run(inputs).toTensor().equal(original));
  reverse_all(model);
  EXPECT_EQ(snapshot(model), before);
}

}  // namespace
}  // namespace refx::testing
