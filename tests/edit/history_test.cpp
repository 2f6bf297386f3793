// SPDX-License-Identifier: Apache-2.0

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>

#include <map>
#include <random>
#include <set>

#include "kit.h"
#include "writer.h"

namespace refx::testing {
namespace {

// Two attention-like blocks one after the other: independent sites.
Model two_blocks() {
  Writer w(Spelling::aten);
  NodeId x = w.input({2, 4});
  for (const char* block : {"a", "b"}) {
    const NodeId q = w.linear(x, std::string(block) + ".q", 4);
    const NodeId k = w.linear(x, std::string(block) + ".k", 4);
    x = w.divide(w.call("add", {q, k}, "Tensor"), 8);
  }
  return w.build(x);
}

Model merged_and_fused() {
  Model model = two_blocks();
  compose(MergeLinears(), FuseBiasInLinear(), ChangeTrueDivToMulByInverse())(model);
  return model;
}

std::vector<std::string> log(const Model& model) {
  std::vector<std::string> lines;
  for (const Step& step : model.history()) lines.push_back((std::ostringstream() << step).str());
  return lines;
}

TEST(History, KeepsItsOrderWhenManyStepsComeAndGo) {
  Model model = two_blocks();
  const NodeId node = *model.graph().begin();
  std::set<StepId> live;
  std::mt19937 random(3);
  for (int i = 0; i < 400; ++i) {
    Editor editor(model);
    // Each writes a node of its own, which nobody reads.
    editor.insert_before(node, {.op = Opcode::placeholder, .name = "n", .target = "n"});
    live.insert(editor.commit({"t", "t", "here", {}}));
    while (live.size() > 5 && random() % 3 != 0) {
      const StepId gone = *std::next(live.begin(), static_cast<long>(random() % live.size()));
      reverse(model, gone);
      if (random() % 4 != 0 || !redo(model)) live.erase(gone);
    }
    ASSERT_EQ(model.history().ids(), std::vector<StepId>(live.begin(), live.end()));
    ASSERT_EQ(model.history().size(), live.size());
    ASSERT_EQ(model.history().back().id, *live.rbegin());
    const StepId some(random() % 400 + 1);
    ASSERT_EQ(model.history().contains(some), live.contains(some));
    const auto from = model.history().from(some);
    const auto expected = live.lower_bound(some);
    ASSERT_EQ(from == model.history().end(), expected == live.end());
    if (expected != live.end()) {
      ASSERT_EQ(from->id, *expected);
    }
  }
}

TEST(History, ListsOneLinePerStep) {
  EXPECT_EQ(log(merged_and_fused()),
            (std::vector<std::string>{"1  merge-linears  a.{q,k}", "2  merge-linears  b.{q,k}",
                                      "3  fuse-bias-in-linear  a.{q,k}",
                                      "4  fuse-bias-in-linear  b.{q,k}",
                                      "5  change-true-div-to-mul-by-inverse  div",
                                      "6  change-true-div-to-mul-by-inverse  div_1"}));
}

TEST(History, StepsAtNeighbouringSitesAreIndependent) {
  const Model model = merged_and_fused();
  const History& history = model.history();
  EXPECT_EQ(history.dependents(model, StepId(1)), std::vector<StepId>{StepId(3)});
  EXPECT_EQ(history.dependents(model, StepId(2)), std::vector<StepId>{StepId(4)});
  for (std::uint32_t id : {3, 4, 5, 6}) EXPECT_TRUE(history.dependents(model, StepId(id)).empty());
}

TEST(History, WhoIsReboundToATensorDependsOnItsMaker) {
  Model model = two_blocks();
  const std::string before = snapshot(model);
  const NodeId weight = model.graph().readers("a.q.weight").front();
  {
    Editor editor(model);
    editor.add_state({"other", StateKind::parameter, true, at::ones({4, 4})});
    editor.commit({"one", "one", "here", {}});
  }
  {
    Editor editor(model);
    Node node = model.graph()[weight];
    node.state = "other";
    editor.set_node(weight, std::move(node));
    editor.commit({"two", "two", "here", {}});
  }
  EXPECT_EQ(model.history().dependents(model, StepId(1)), std::vector<StepId>{StepId(2)});
  reverse(model, StepId(1), {.dependents = Dependents::cascade});
  EXPECT_EQ(snapshot(model), before);
}

TEST(History, WhatIsReversedForGoodCannotReturn) {
  Model model = two_blocks();
  const std::string before = snapshot(model);
  compose(MergeLinears(), FuseBiasInLinear())(model);
  reverse_all(model, {.redoable = false});
  EXPECT_EQ(snapshot(model), before);
  EXPECT_FALSE(redo(model));
  EXPECT_FALSE(model.state().name_taken("a.q-k-merged.weight"));
}

TEST(History, PlansWhatReversingTakesAlong) {
  Model model = merged_and_fused();
  const ReversalPlan last = plan_reversal(model, {StepId(6), StepId(5), StepId(6)});
  EXPECT_EQ(last.asked, (std::vector<StepId>{StepId(5), StepId(6)}));
  EXPECT_TRUE(last.dependents.empty());
  const ReversalPlan first = plan_reversal(model, {StepId(1)});
  ASSERT_EQ(first.dependents.size(), 1u);
  EXPECT_EQ(first.dependents.at(StepId(3)), std::vector<StepId>{StepId(1)});
}

// Steps that rewrite, rebind, replace, make and erase a few objects again and again.
Model with_random_steps(std::mt19937& random, int steps) {
  Writer w(Spelling::functional);
  Model model = w.build(w.input({2, 4}));
  {
    Editor editor(model);
    for (const char* name : {"m.a", "m.b", "c"})
      editor.add_state({name, StateKind::parameter, true, at::ones({4})});
    for (int i = 0; i < 6; ++i)
      editor.insert_before(model.graph().output(), {.op = Opcode::get_attr, .target = "c"});
    editor.commit_as_origin();
  }
  for (int step = 0; step < steps; ++step) {
    Editor editor(model);
    for (unsigned i = 0; i <= random() % 2; ++i) {
      std::vector<NodeId> nodes(++model.graph().begin(), model.graph().end());
      const NodeId node = nodes[random() % nodes.size()];
      std::vector<StateId> states(model.state().begin(), model.state().end());
      const StateId state = states[random() % states.size()];
      const Node read{.op = Opcode::get_attr, .target = model.state()[state].name};
      if (random() % 4 == 0)
        editor.set_state(state, at::ones({4}));
      else if (node == model.graph().output() || random() % 6 == 0)
        editor.insert_before(node, random() % 2 ? read
                                                : Node{.target = "aten.relu.default",
                                                       .args = {*model.graph().begin()}});
      else if (model.graph().num_users(node) == 0 && nodes.size() > 4 && random() % 4 == 0)
        editor.erase_node(node);
      else if (const NodeId before = model.graph().previous(node); random() % 2 && before)
        editor.set_node(node, {.target = "aten.relu.default", .args = {before}});
      else
        editor.set_node(node, read);
    }
    editor.commit({"by-hand", "by-hand", "here", {}});
  }
  return model;
}

using Causes = std::map<StepId, std::vector<StepId>>;

std::map<StepId, std::set<StepId>> all_behind(const Causes& causes) {
  std::map<StepId, std::set<StepId>> behind;
  for (const auto& [id, direct] : causes)
    for (StepId cause : direct) {
      behind[id].insert(cause);
      if (auto found = behind.find(cause); found != behind.end())
        behind[id].insert(found->second.begin(), found->second.end());
    }
  return behind;
}

TEST(History, APlanLeavesOutOnlyCausesBehindOthers) {
  std::mt19937 random(11);
  std::size_t with_dependents = 0, left_out = 0;
  for (int round = 0; round < 60; ++round) {
    Model model = with_random_steps(random, 12);
    std::map<StepId, std::vector<StepId>> dependents;
    for (StepId id : model.history().ids()) dependents[id] = model.history().dependents(model, id);
    std::vector<StepId> asked;
    for (StepId id : model.history().ids())
      if (random() % 4 == 0) asked.push_back(id);
    const ReversalPlan plan = plan_reversal(model, asked);
    Causes all;
    for (const auto& [id, later] : dependents)
      if (plan.is_asked(id) || all.count(id))
        for (StepId dependent : later)
          if (!plan.is_asked(dependent)) all[dependent].push_back(id);
    EXPECT_EQ(all_behind(plan.dependents), all_behind(all));
    with_dependents += !all.empty();
    for (const auto& [id, causes] : plan.dependents) left_out += causes.size() < all[id].size();
  }
  EXPECT_GT(with_dependents, 30u);
  EXPECT_GT(left_out, 10u);
}

TEST(History, SelectsByIdTransformationAndPattern) {
  const Model model = merged_and_fused();
  EXPECT_EQ(model.history().select("2"), std::vector<StepId>{StepId(2)});
  EXPECT_EQ(model.history().select("merge-linears"), (std::vector<StepId>{StepId(1), StepId(2)}));
  EXPECT_EQ(model.history().select("b.*"), (std::vector<StepId>{StepId(2), StepId(4)}));
}

TEST(History, SuggestsTheNearestName) {
  const Model model = merged_and_fused();
  EXPECT_EQ(error_of([&] { model.history().select("merge-linear"); }),
            "no step matches 'merge-linear'; did you mean 'merge-linears'?");
}

TEST(History, NamesTheRangeForAnUnknownStep) {
  Model model = merged_and_fused();
  const std::string before = snapshot(model);
  EXPECT_EQ(error_of([&] { reverse(model, StepId(99)); }),
            "there is no step 99; the steps are 1 to 6");
  EXPECT_EQ(snapshot(model), before);
}

TEST(History, CountsTheBytesKeptForUndo) {
  Model model = two_blocks();
  MergeLinears()(model);
  EXPECT_EQ(model.history()[StepId(1)].bytes(), 2 * (4 * 4 + 4) * sizeof(float));
}

TEST(Reverse, AsIfTheStepHadNeverBeenApplied) {
  const SiteFilter block{.site = {"a.*"}, .exclude = {}};
  Model model = two_blocks();
  apply(model, MergeLinears(), block);
  apply(model, FuseBiasInLinear(), block);
  const Reversal result = reverse(model, StepId(1));
  EXPECT_EQ(result.reversed, std::vector<StepId>{StepId(1)});
  ASSERT_EQ(result.replaced.size(), 1u);
  EXPECT_EQ(result.replaced[0].id, StepId(2));
  EXPECT_EQ(result.replaced[0].label, "fuse-bias-in-linear  a.{q,k}");
  EXPECT_EQ(result.replaced[0].reapplied, (std::vector<StepId>{StepId(3), StepId(4)}));

  Model never = two_blocks();
  apply(never, FuseBiasInLinear(), block);
  EXPECT_EQ(content(model), content(never));
}

TEST(Reverse, RefusesAndNamesTheDependents) {
  Model model = merged_and_fused();
  const std::string before = snapshot(model);
  const std::string message = error_of([&] {
    reverse(model, StepId(1), {.dependents = Dependents::refuse, .discard_changes = false});
  });
  EXPECT_NE(message.find("step 3 (fuse-bias-in-linear, a.{q,k})"), std::string::npos) << message;
  EXPECT_EQ(snapshot(model), before);
  EXPECT_EQ(model.history().size(), 6u);
}

TEST(Reverse, CascadesToTheDependents) {
  Model model = merged_and_fused();
  const Reversal result =
      reverse(model, StepId(1), {.dependents = Dependents::cascade, .discard_changes = false});
  EXPECT_EQ(result.reversed, (std::vector<StepId>{StepId(3), StepId(1)}));
  EXPECT_TRUE(result.replaced.empty());
  EXPECT_EQ(model.history().size(), 4u);
  EXPECT_TRUE(redo(model));
  EXPECT_TRUE(redo(model));
  EXPECT_EQ(snapshot(model), snapshot(model));
  EXPECT_EQ(log(model), log(merged_and_fused()));
}

// A rewrite that only this process knows: it cannot be found again by name.
class Unregistered : public Transformation {
 public:
  std::string name() const override { return "drop-padding"; }
  Findings find(const Model& model) const override {
    Findings findings;
    for (NodeId id : model.graph())
      if (model.graph()[id].target == "aten.constant_pad_nd.default" &&
          model.graph()[id].args.size() == 3)
        findings.sites.push_back({"pad", {id}});
    return findings;
  }
  std::optional<Reason> apply(Editor& editor, const Site& site) const override {
    Node node = editor.graph()[site.nodes[0]];
    node.kwargs = {{"value", node.args[2]}};
    node.args.pop_back();
    editor.set_node(site.nodes[0], node);
    return std::nullopt;
  }
};

// Writes at every division; then refuses the first, and takes back what it wrote at the second.
class HalfWay : public Transformation {
 public:
  std::string name() const override { return "half-way"; }
  bool reaches_fixpoint_in_one_pass() const override { return true; }
  Findings find(const Model& model) const override {
    Findings findings;
    for (NodeId id : model.graph())
      if (model.graph()[id].target == "aten.div.Tensor")
        findings.sites.push_back({model.graph()[id].name, {id}});
    return findings;
  }
  std::optional<Reason> apply(Editor& editor, const Site& site) const override {
    const Node& division = editor.graph()[site.nodes[0]];
    const NodeId copy = editor.insert_after(
        site.nodes[0], {.target = division.target, .args = division.args, .type = division.type});
    editor.add_piece({editor.state().first(), editor.state().first(), 0, 0, 1});
    if (site.name == "div") return custom_reason("not here");
    if (site.name == "div_2")
      editor.replace_uses(site.nodes[0], copy);
    else
      editor.erase_node(copy);
    return std::nullopt;
  }
};

TEST(Apply, WhatARewriteDidBeforeItRefusedIsTakenBack) {
  Writer w(Spelling::aten);
  const NodeId x = w.linear(w.input({2, 4}), "a", 4);
  NodeId sum = x;
  for (int i = 0; i < 3; ++i) sum = w.call("add", {sum, w.divide(x, 8)}, "Tensor");
  Model model = w.build(sum);
  const std::string before = snapshot(model);
  const Outcome outcome = HalfWay()(model);
  ASSERT_EQ(outcome.refusals.size(), 1u);
  EXPECT_EQ(outcome.refusals[0].site.name, "div");
  EXPECT_EQ(to_string(outcome.refusals[0].reason), "not here");
  ASSERT_EQ(outcome.steps.size(), 1u);
  const Step& step = model.history()[outcome.steps[0]];
  EXPECT_EQ(step.site, "div_2");
  EXPECT_EQ(step.edits.size(), 3u);  // the copy, its reader, and the mark
  EXPECT_EQ(step.pieces.size(), 1u);
  EXPECT_FALSE(model.graph().find("div_4"));  // names are free again
  reverse_all(model);
  EXPECT_EQ(snapshot(model), before);
}

TEST(Reverse, ReportsWhatItHadToDrop) {
  Model model = two_blocks();
  FuseBiasInLinear()(model);
  Unregistered()(model);
  const StepId first = model.history().ids()[0];
  const Reversal result = reverse(model, first);
  ASSERT_EQ(result.replaced.size(), 1u);
  EXPECT_TRUE(result.replaced[0].reapplied.empty());
  reverse_all(model);
  EXPECT_EQ(print(model), print(two_blocks()));
}

TEST(Reverse, APlainTransformationIsIrreversibleAsATypeButItsStepsAreNot) {
  const Unregistered plain;
  EXPECT_FALSE(plain.reversible());
  const Composition mixed = compose(MergeLinears(), Unregistered());
  EXPECT_FALSE(mixed.reversible());
  Model model = two_blocks();
  FuseBiasInLinear()(model);
  const std::string before = snapshot(model);
  mixed(model);
  EXPECT_NE(error_of([&] { mixed(model, Reverse::yes); }).find("drop-padding"), std::string::npos);
  while (model.history().size() > 4) reverse(model, model.history().back().id);
  EXPECT_EQ(snapshot(model), before);
}

TEST(Redo, IsForgottenWhenSomethingNewIsApplied) {
  Model model = two_blocks();
  MergeLinears()(model);
  reverse_all(model);
  EXPECT_EQ(model.history().reversed().size(), 2u);
  ChangeTrueDivToMulByInverse()(model);
  EXPECT_FALSE(redo(model));
  // The names it had are free again.
  MergeLinears()(model);
  EXPECT_TRUE(model.state().find("a.q-k-merged.weight"));
}

TEST(Redo, RefusesAfterAnOriginalWasChanged) {
  Model model = two_blocks();
  MergeLinears()(model);
  reverse_all(model);
  at::Tensor(model.state().tensor(model.state().find("a.q.weight"))).add_(1);
  const std::string before = snapshot(model);
  EXPECT_NE(error_of([&] { redo(model); }).find("'a.q.weight' was changed"), std::string::npos);
  EXPECT_EQ(snapshot(model), before);
}

TEST(Forget, DropsTheHistoryAndTheOriginals) {
  Model model = merged_and_fused();
  const std::string text = print(model);
  const at::Tensor original(
      std::get<Change<StateEntry>>(*std::find_if(model.history()[StepId(1)].edits.begin(),
                                                 model.history()[StepId(1)].edits.end(),
                                                 [](const Edit& edit) {
                                                   const auto* change =
                                                       std::get_if<Change<StateEntry>>(&edit);
                                                   return change && change->before;
                                                 }))
          .before->tensor);
  EXPECT_GT(original.use_count(), 1u);
  forget(model);
  EXPECT_EQ(original.use_count(), 1u);
  EXPECT_EQ(print(model), text);
  EXPECT_TRUE(model.history().empty());
  validate(model);
  // Names of what is gone are free, and the model can be rewritten on.
  EXPECT_FALSE(model.state().name_taken("a.q.weight"));
  const std::string before = snapshot(model);
  MergeLinears()(model);
  reverse_all(model);
  EXPECT_EQ(snapshot(model), before);
}

TEST(Carry, TrainedMergedWeightsSplitExactly) {
  Model model = two_blocks();
  const Model original = model;
  compose(MergeLinears(), FuseBiasInLinear())(model);
  // Train the bias column of the fused weight, of `k` in block `a` alone.
  at::Tensor fused(model.state().tensor(model.state().find("a.q-k-merged.weight")));
  fused.narrow(0, 4, 4).narrow(1, 4, 1).add_(0.5);
  Model current = deep_copy(model);
  reverse_all(model);
  validate(model);
  expect_same_results(current, model, random_inputs(model));
  for (StateId id : model.state()) {
    const std::string& name = model.state()[id].name;
    const bool same = model.state().tensor(id).is_same(original.state().tensor(id));
    EXPECT_EQ(same, name != "a.k.bias") << name;
  }
  EXPECT_TRUE(
      at::Tensor(model.state().tensor(model.state().find("a.k.bias")))
          .equal(at::Tensor(original.state().tensor(original.state().find("a.k.bias"))) + 0.5));
}

TEST(Carry, ACopyKeepsItsStepsWhenTheModelIsReversed) {
  Model model = two_blocks();
  MergeLinears()(model);
  const Model copy = model;
  std::vector<std::size_t> stamps;
  for (const Step& step : copy.history()) stamps.push_back(step.stamps.size());
  reverse_all(model);
  for (const Step& step : copy.history())
    for (const TensorStamp& stamp : step.stamps) EXPECT_TRUE(copy.state().contains(stamp.state));
  for (const Step& step : copy.history()) EXPECT_EQ(step.stamps.size(), stamps[step.id.value - 1]);
}

TEST(Carry, DiscardingChangesRestoresTheOriginals) {
  Model model = two_blocks();
  const std::string before = snapshot(model);
  MergeLinears()(model);
  at::Tensor(model.state().tensor(model.state().find("a.q-k-merged.weight"))).mul_(2);
  reverse_all(model, {.dependents = Dependents::reapply, .discard_changes = true});
  EXPECT_EQ(snapshot(model), before);
}

TEST(Compose, LeavesItsInputUntouchedWhenNotInPlace) {
  Model model = two_blocks();
  const std::string before = snapshot(model);
  const auto speedup = compose(Inplace::no, MergeLinears(), ChangeTrueDivToMulByInverse());
  Outcome outcome = speedup(model);
  ASSERT_TRUE(outcome.copy);
  EXPECT_EQ(outcome.steps.size(), 4u);
  EXPECT_EQ(snapshot(model), before);
  const std::string after = snapshot(*outcome.copy);
  const Outcome back = speedup(*outcome.copy, Reverse::yes);
  EXPECT_EQ(snapshot(*outcome.copy), after);
  EXPECT_EQ(snapshot(*back.copy), before);
}

TEST(Compose, NestsAndReversesRightToLeft) {
  Model model = two_blocks();
  const std::string before = snapshot(model);
  const auto nested =
      compose(compose(MergeLinears(), FuseBiasInLinear()), ChangeTrueDivToMulByInverse());
  EXPECT_TRUE(nested.reversible());
  EXPECT_TRUE(nested.preserves_computation());
  EXPECT_EQ(nested(model).steps.size(), 6u);
  const Outcome back = nested(model, Reverse::yes);
  EXPECT_EQ(back.reversal.reversed.size(), 6u);
  EXPECT_TRUE(back.reversal.replaced.empty());
  EXPECT_EQ(snapshot(model), before);
}

TEST(Compose, HasASignatureOfItsParts) {
  EXPECT_EQ(compose(MergeLinears(), FuseBiasInLinear()).signature(),
            "compose(merge-linears, fuse-bias-in-linear)");
  EXPECT_EQ(compose(compose(MergeLinears()), FuseBiasInLinear()).signature(),
            "compose(merge-linears, fuse-bias-in-linear)");
}

TEST(Marks, AreSetByApplyingAndTakenBackByReversing) {
  Model model = two_blocks();
  const MergeLinears merge;
  merge(model);
  EXPECT_EQ(merge.get_transformed_nodes(model).size(), 4u);
  EXPECT_TRUE(merge.transformed(model, model.graph().find("linear")));
  EXPECT_FALSE(FuseBiasInLinear().transformed(model, model.graph().find("linear")));
  reverse_all(model);
  EXPECT_TRUE(merge.get_transformed_nodes(model).empty());
}

TEST(Marks, CanBeSetByHandAndAreSteps) {
  Model model = two_blocks();
  const std::string before = snapshot(model);
  const MergeLinears merge;
  const NodeId node = model.graph().find("add");
  merge.mark_as_transformed(model, node);
  EXPECT_TRUE(merge.transformed(model, node));
  merge.mark_as_restored(model, node);
  EXPECT_FALSE(merge.transformed(model, node));
  EXPECT_EQ(model.history().size(), 2u);
  reverse_all(model);
  EXPECT_EQ(snapshot(model), before);
}

TEST(Apply, FiltersSitesByPattern) {
  Model model = two_blocks();
  EXPECT_EQ(apply(model, MergeLinears(), {.site = {"a.*"}, .exclude = {}}).steps.size(), 1u);
  EXPECT_EQ(apply(model, MergeLinears(), {.site = {}, .exclude = {"b.*"}}).steps.size(), 0u);
  EXPECT_EQ(log(model), std::vector<std::string>{"1  merge-linears  a.{q,k}"});
}

TEST(Registry, SuggestsTheNearestTransformation) {
  EXPECT_EQ(error_of([] { find_transformation("merge-linear"); }),
            "there is no transformation 'merge-linear'; did you mean 'merge-linears'?");
}

}  // namespace
}  // namespace refx::testing
