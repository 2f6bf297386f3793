// SPDX-License-Identifier: Apache-2.0

#include "kit.h"
#include "transforms/variants.h"

namespace refx::testing {
namespace {

std::vector<std::string> steps_of(const std::vector<Outcome>& outcomes, const Model& model) {
  std::vector<std::string> sites;
  for (const Outcome& outcome : outcomes)
    for (StepId id : outcome.steps) sites.emplace_back(model.history()[id].site);
  return sites;
}

// Two linears with one input and one behind them.
Model layers() {
  return parse_filled(R"(
parameter a.q.weight : f32[64, 64]
parameter a.k.weight : f32[64, 64]
parameter head.weight : f32[64, 64]
graph():
    %p_a_q_weight : f32[64, 64] = placeholder[target=p_a_q_weight](state=a.q.weight)
    %p_a_k_weight : f32[64, 64] = placeholder[target=p_a_k_weight](state=a.k.weight)
    %p_head_weight : f32[64, 64] = placeholder[target=p_head_weight](state=head.weight)
    %x : f32[2, 64] = placeholder[target=x]
    %linear : f32[2, 64] = call_function[target=aten.linear.default](args = (%x, %p_a_q_weight))
    %linear_1 : f32[2, 64] = call_function[target=aten.linear.default](args = (%x, %p_a_k_weight))
    %add : f32[2, 64] = call_function[target=aten.add.Tensor](args = (%linear, %linear_1))
    %linear_2 : f32[2, 64] = call_function[target=aten.linear.default](args = (%add, %p_head_weight))
    return linear_2
)");
}

TEST(SiteNames, ALayerIsCalledTheSameByEveryTransformation) {
  Model model = layers();
  EXPECT_EQ(site_names("store-linear-int8", model), (Names{"a.q", "a.k", "head"}));
  EXPECT_EQ(site_names("merge-linears", model), (Names{"a.{q,k}"}));
  apply(model, find_transformation("merge-linears"));
  EXPECT_EQ(site_names("store-linear-int8", model), (Names{"a.{q,k}", "head"}));
}

TEST(SiteNames, AForgottenHistoryLeavesTheNamesThatTheModelHas) {
  Model model = layers();
  apply(model, find_transformation("merge-linears"));
  forget(model);
  EXPECT_EQ(site_names("store-linear-int8", model), (Names{"a.q-k-merged", "head"}));
}

TEST(SiteNames, CallsOfOneLayerHaveDifferentNames) {
  const Model model = parse_filled(R"(
parameter d.weight : f32[8, 8]
parameter d.bias : f32[8]
graph():
    %p_d_weight : f32[8, 8] = placeholder[target=p_d_weight](state=d.weight)
    %p_d_bias : f32[8] = placeholder[target=p_d_bias](state=d.bias)
    %x : f32[2, 8] = placeholder[target=x]
    %linear : f32[2, 8] = call_function[target=aten.linear.default](args = (%x, %p_d_weight, %p_d_bias))
    %linear_1 : f32[2, 8] = call_function[target=aten.linear.default](args = (%linear, %p_d_weight, %p_d_bias))
    return linear_1
)");
  EXPECT_EQ(refused_names("fuse-bias-in-linear", model), (Names{"d.linear", "d.linear_1"}));
}

TEST(SiteNames, ATiedWeightDoesNotGiveItsNameToTheOtherLayer) {
  const Model model = parse_filled(R"(
parameter embed.weight : f32[8, 8]
parameter head.bias : f32[8]
graph():
    %p_embed_weight : f32[8, 8] = placeholder[target=p_embed_weight](state=embed.weight)
    %p_head_bias : f32[8] = placeholder[target=p_head_bias](state=head.bias)
    %x : i64[2] = placeholder[target=x]
    %embedding : f32[2, 8] = call_function[target=aten.embedding.default](args = (%p_embed_weight, %x))
    %linear : f32[2, 8] = call_function[target=aten.linear.default](args = (%embedding, %p_embed_weight, %p_head_bias))  # meta {nn_module_stack: ",head,Linear"}
    return linear
)");
  EXPECT_EQ(refused_names("fuse-bias-in-linear", model), (Names{"head"}));
  const auto sites = [&](const char* except) {
    return find_sites(model, find_transformations({"fuse-bias-in-linear"}),
                      {.exclude = {except}})[0]
        .refusals.size();
  };
  EXPECT_EQ(sites("head"), 0u);
  EXPECT_EQ(sites("embed"), 0u);
}

TEST(SiteFilter, MatchesModulesTensorsAndNodesOfEveryMember) {
  const auto left = [](const char* pattern) {
    Model model = layers();
    const auto all = find_transformations({"merge-linears", "store-linear-int8"});
    return steps_of(apply(model, all, {.exclude = {pattern}}), model);
  };
  for (const char* pattern : {"a", "a.*", "a.?"}) EXPECT_EQ(left(pattern), (Names{"head"}));
  for (const char* pattern : {"a.q", "*.q", "a.q.weight", "linear"})
    EXPECT_EQ(left(pattern), (Names{"a.k", "head"})) << pattern;
}

TEST(SiteFilter, KnowsALayerAfterEveryRewrite) {
  for (const char* pattern : {"a", "a.q", "a.q.weight", "a.k", "a.q-k-merged", "a.{q,k}"}) {
    Model model = layers();
    apply(model, find_transformation("merge-linears"));
    const Outcome outcome =
        apply(model, find_transformation("store-linear-int8"), {.exclude = {pattern}});
    EXPECT_EQ(steps_of({outcome}, model), (Names{"head"})) << pattern;
    apply(model, find_transformation("store-linear-int8"), {.site = {pattern}});
    EXPECT_EQ(model.history().back().site, "a.{q,k}") << pattern;
  }
}

TEST(SiteFilter, APatternThatMatchesNothingIsAnErrorAndChangesNothing) {
  Model model = layers();
  const std::string before = snapshot(model);
  const Transformation& store = find_transformation("store-linear-int8");
  EXPECT_EQ(error_of([&] {
              apply(model, store, {.site = {"head", "tail"}});
            }),
            "'tail' matches no site; find_sites() lists the sites");
  EXPECT_EQ(error_of([&] { apply(model, store, {.exclude = {"haed"}}); }),
            "'haed' matches nothing; did you mean 'head'?");
  EXPECT_EQ(error_of([&] {
              find_sites(model, find_transformations({"merge-linears"}), {.site = {"head"}});
            }),
            "'head' matches no site; find_sites() lists the sites");
  EXPECT_EQ(snapshot(model), before);
  // What is there is safe where nothing would rewrite it.
  EXPECT_EQ(apply(model, find_transformation("merge-linears"), {.exclude = {"head"}}).steps.size(),
            1u);
}

TEST(SiteFilter, StepsAreChosenByTheModulesThatTheyReplaced) {
  Model model = layers();
  refx::apply(model, find_transformations({"merge-linears", "store-linear-int8"}));
  const auto chosen = [&](const char* what) { return model.history().select(what).size(); };
  EXPECT_EQ(chosen("a.k"), 2u);
  EXPECT_EQ(chosen("head"), 1u);
  EXPECT_EQ(chosen("a.q.weight"), 2u);
  EXPECT_EQ(chosen("store-linear-int8"), 2u);
}

}  // namespace
}  // namespace refx::testing
